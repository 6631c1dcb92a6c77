#pragma once
/// Operations recorded once and enqueued again as one: launching each by itself costs the host more than the GPU needs.

namespace trireme {

class Graph {
  public:
    Graph() = default;
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    virtual ~Graph() = default;

    /// Enqueues them on the stream they were recorded on, with the addresses and sizes of then; what lies at the
    /// addresses is read when they run. The graph outlives that.
    virtual void launch() = 0;
};

}  // namespace trireme
