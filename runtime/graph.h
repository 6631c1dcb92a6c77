#pragma once
/// Graph: operations recorded once and enqueued again as one. Single launches cost the host more than the GPU needs.

namespace trireme {

class Graph {
  public:
    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    virtual ~Graph() = default;

    /// Enqueues the operations on the stream they were recorded on, with the recorded addresses and sizes. Memory
    /// contents are read when the operations run. The graph must outlive them.
    virtual void launch() = 0;
};

}  // namespace trireme
