#pragma once
/// The ranks of a run as one: they pass each phase together, or leave together with one message and one code.

#include <functional>

#include "dist/comm.h"

namespace trireme {

/// Called again and again, at least several times a second, by work that waits for the outside.
using StillWaiting = std::function<void()>;

class Crew {
  public:
    explicit Crew(Comm& comm) : comm_(comm) {}

    Comm& comm() const { return comm_; }
    bool first() const { return comm_.rank() == 0; }

    /// Runs `work` on every rank; it may fail on some, and makes no calls of Comm. If it failed anywhere, every rank
    /// throws the most severe failure (of the lowest rank that has it) as an AgreedError. A control call.
    void phase(const std::function<void()>& work) const;
    /// A phase that only rank 0 has work in.
    void first_only(const std::function<void()>& work) const;
    /// The same for work that may wait for a person or a pipe, longer than ranks wait for each other. It calls what it
    /// is given now and then: the ranks tell each other that they are there, as often as their deadline asks for.
    void first_only_waiting(const std::function<void(const StillWaiting&)>& work) const;

  private:
    Comm& comm_;
};

}  // namespace trireme
