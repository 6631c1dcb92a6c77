#pragma once
/// DecodeRun: the rounds of a run that decodes. It notifies observers of each round, and the ranks agree whether the
/// run continues.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "launch/run/rank_group.h"

namespace trireme {

/// What a run does at each round, such as recording it or writing a snapshot. Any member may be empty.
struct RoundObserver {
    /// A round has ended with these tokens.
    std::function<void(std::span<const int32_t> tokens)> round = {};
    /// Returns this rank's status, 0 to 127 (agreed_status.h); 0: continue.
    std::function<int()> status = {};
    /// Receives the round's number of tokens and the agreed status, and returns the one that counts. All ranks must
    /// return the same.
    std::function<int(size_t tokens, int agreed)> agreed = {};
};

/// Every rank has one; all make the same calls.
class DecodeRun {
  public:
    /// `digest`: of the decisions of the run's chains (Chain::digest). The arguments must outlive the object.
    DecodeRun(const RankGroup& rank_group, std::function<uint64_t()> digest)
        : rank_group_(rank_group), digest_(std::move(digest)) {}
    /// Observers are called in the order in which they are added.
    void add(RoundObserver observer) { observers_.push_back(std::move(observer)); }

    /// Call it after each round. Returns whether the run must stop. Errors: as agreed_status() and the observers.
    bool round(std::span<const int32_t> tokens);
    /// Call it during a prefill that may be interrupted, for its signals. Throws Interrupted on all ranks if the run
    /// must stop.
    void prefill();
    /// The last agreed status; 0: the run continues.
    int status() const { return status_; }

  private:
    const RankGroup& rank_group_;
    std::function<uint64_t()> digest_;
    std::vector<RoundObserver> observers_;
    int status_ = 0;
};

}  // namespace trireme
