#include "decode/branched_chain.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

bool is_later_sibling(std::span<const Proposed> proposal, int32_t i) {
    const auto earlier = proposal.first(index(i));
    return std::ranges::any_of(earlier, [&](const Proposed& p) { return p.parent == proposal[index(i)].parent; });
}

void append_sibling_uniforms(std::vector<double>& uniforms, uint64_t seed, DrawKey key, int64_t i, int64_t siblings) {
    key.purpose = Purpose::kSibling;
    for (int64_t draw = 0; draw <= siblings; ++draw) {
        key.node = static_cast<uint32_t>(i * (BranchedChain::kMostSiblings + 1) + draw);
        uniforms.push_back(uniform(seed, key));
    }
}

BranchedChain::Kept BranchedChain::kept(std::span<const int32_t> path, const char* name) const {
    Kept kept;
    int32_t before = -1;
    for (const int32_t i : path) {
        check(i >= 0 && i < std::ssize(proposal_) && proposal_[index(i)].parent == before,
              "{}: token {} of {} is accepted after {}", name, i, proposal_.size(), before);
        before = i;
        if (is_later_sibling(proposal_, i)) {
            kept.sibling = proposal_[index(i)].token;
        } else {
            ++kept.length;
        }
    }
    return kept;
}

}  // namespace trireme
