#pragma once
/// Graph: operations of a decode step that were recorded once (Stream::capture) and are enqueued again by one call.
/// Single launches would cost the host more time than the GPU needs for the work.

namespace trireme {

class Graph {
  public:
    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    virtual ~Graph() = default;

    /// Enqueues the operations on the stream they were recorded on, with the recorded addresses and sizes. Memory
    /// contents are read when the operations run. The graph must outlive the operations of its launches.
    virtual void launch() = 0;
};

}  // namespace trireme
