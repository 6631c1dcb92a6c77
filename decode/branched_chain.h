#pragma once
/// BranchedChain: a proposed chain whose tokens may have siblings. These are leaves: the verifier computes them in the
/// same forward, and takes one where it rejects the chain's token.

#include <cstdint>
#include <span>
#include <vector>

#include "decode/proposer.h"
#include "kernels/kernels.h"
#include "runtime/random.h"

namespace trireme {

class BranchedChain {
  public:
    static constexpr int64_t kMostSiblings = 7;

    BranchedChain() { proposal_.reserve(2 * kMaxRows); }

    void clear() {
        proposal_.clear();
        length_ = 0;
        last_ = -1;
    }
    /// Appends a token to the chain.
    void add(int32_t token, const Distribution& distribution) {
        const int32_t parent = last_;
        last_ = static_cast<int32_t>(proposal_.size());
        proposal_.push_back({.token = token, .parent = parent, .distribution = distribution});
        ++length_;
    }
    /// Adds siblings of the last token: the first `most` of `drawn` that are neither that token nor -1. `drawn`: tokens
    /// that were sampled one after the other without replacement from the last token's distribution, independently of
    /// that token. What remains without the token is again such a sample, of the distribution without the token.
    /// `greedy`: they are the likeliest tokens instead, point masses.
    void add_siblings(std::span<const int32_t> drawn, int64_t most, bool greedy) {
        const auto [token, parent, distribution] = proposal_[static_cast<size_t>(last_)];
        const Distribution point = {.ready = distribution.ready};
        const Proposed sibling = {.parent = parent, .distribution = greedy ? point : distribution};
        for (const int32_t id : drawn) {
            if (id < 0 || id == token || most == 0) continue;
            proposal_.push_back(sibling);
            proposal_.back().token = id;
            --most;
        }
    }
    /// Number of tokens of the chain, without siblings.
    int64_t length() const { return length_; }
    std::span<const Proposed> proposal() const { return proposal_; }

    /// What a verifier accepts: the first tokens of the chain, then perhaps a sibling of the next one.
    struct Kept {
        int64_t length = 0;
        int32_t sibling = -1;  // a token; -1: none
    };
    /// `path`: accepted indices of the proposal. Errors: Exit::kInternal if they are not a path; `name` says whose.
    Kept kept(std::span<const int32_t> path, const char* name) const;

  private:
    std::vector<Proposed> proposal_;
    int64_t length_ = 0;
    int32_t last_ = -1;  // index of the chain's last token
};

/// Appends the uniforms of the draws that yield `siblings` siblings of token i: one more, since one of the drawn tokens
/// may be that token.
void append_sibling_uniforms(std::vector<double>& uniforms, uint64_t seed, DrawKey key, int64_t i, int64_t siblings);

/// Whether token i of a proposal has an earlier sibling.
bool is_later_sibling(std::span<const Proposed> proposal, int32_t i);

}  // namespace trireme
