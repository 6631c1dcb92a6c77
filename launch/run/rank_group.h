#pragma once
/// Rank group: the ranks of a run. In each phase all of them succeed, or all fail with the same message and exit code.

#include <functional>

#include "dist/comm.h"

namespace trireme {

/// Work that waits for input from outside (a person, a pipe) calls this several times a second.
using StillWaiting = std::function<void()>;

class RankGroup {
  public:
    explicit RankGroup(Comm& comm) : comm_(comm) {}

    Comm& comm() const { return comm_; }
    bool first() const { return comm_.rank() == 0; }

    /// Runs `work` on every rank. It must not call Comm, and may fail on some ranks only. If it failed on any, every
    /// rank throws an AgreedError: the failure with the highest exit code, of the lowest rank that has it. A control
    /// call.
    void phase(const std::function<void()>& work) const;
    /// A phase in which only rank 0 has work.
    void first_only(const std::function<void()>& work) const;
    /// Like first_only(), but for work that may wait for a person or a pipe, longer than the deadline of control calls.
    /// `work` must keep calling the StillWaiting that it gets. Rank 0 thereby signals the others, within the deadline,
    /// that it is still waiting.
    void first_only_waiting(const std::function<void(const StillWaiting&)>& work) const;

  private:
    Comm& comm_;
};

}  // namespace trireme
