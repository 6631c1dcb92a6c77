#pragma once
/// The ranks of a run, acting together: all pass a phase, or all fail with the same message and exit code.

#include <functional>

#include "dist/comm.h"

namespace trireme {

/// Work that waits for something outside (a person, a pipe) calls this several times a second or more.
using StillWaiting = std::function<void()>;

class Crew {
  public:
    explicit Crew(Comm& comm) : comm_(comm) {}

    Comm& comm() const { return comm_; }
    bool first() const { return comm_.rank() == 0; }

    /// Runs `work` on every rank. It must not call Comm, and may fail on some ranks only. If it failed on any, every
    /// rank throws an AgreedError: the failure with the highest exit code, of the lowest rank that has it. A control
    /// call.
    void phase(const std::function<void()>& work) const;
    /// A phase that only rank 0 has work in.
    void first_only(const std::function<void()>& work) const;
    /// The same for work that may wait for a person or a pipe, longer than the deadline of control calls. `work` must
    /// keep calling the StillWaiting that it is given: rank 0 thereby tells the others, often enough for the deadline,
    /// that it is still waiting.
    void first_only_waiting(const std::function<void(const StillWaiting&)>& work) const;

  private:
    Comm& comm_;
};

}  // namespace trireme
