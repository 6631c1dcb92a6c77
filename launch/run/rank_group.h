#pragma once
/// RankGroup: the ranks of a run, as commands see them. Work is divided into phases: in each, all ranks succeed, or all
/// fail with the same message and exit code. Every rank makes the same calls in the same order.

#include <functional>

#include "dist/comm.h"

namespace trireme {

/// Work that waits for input from outside (a person, a pipe) must call this several times a second.
using StillWaiting = std::function<void()>;

class RankGroup {
  public:
    explicit RankGroup(Comm& comm) : comm_(comm) {}

    Comm& comm() const { return comm_; }
    /// Whether this is rank 0.
    bool first() const { return comm_.rank() == 0; }

    /// Runs `work` on every rank, and waits for all ranks. `work` must not call Comm, and may fail on some ranks only.
    /// If it failed on any, every rank throws an AgreedError: the failure with the highest exit code, of the lowest
    /// rank that has it. A control call.
    void phase(const std::function<void()>& work) const;
    /// A phase in which rank 0 alone runs `work`.
    void first_only(const std::function<void()>& work) const;
    /// Like first_only(), for work that may take longer than the deadline of control calls (TRIREME_TIMEOUT_S): it
    /// waits for a person or a pipe. `work` must keep calling the StillWaiting that it receives, by which rank 0
    /// signals the others that it is still waiting.
    void first_only_waiting(const std::function<void(const StillWaiting&)>& work) const;

  private:
    Comm& comm_;
};

}  // namespace trireme
