#include "launch/report/speculation_facts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace trireme {
namespace {

/// The counts by position in a proposal, up to the last position that had a token.
std::vector<int64_t> by_place(const std::array<int64_t, kMaxRows>& counts,
                              const std::array<int64_t, kMaxRows>& proposed) {
    const auto last = std::find_if(proposed.rbegin(), proposed.rend(), [](int64_t n) { return n > 0; });
    return {counts.begin(), counts.begin() + (proposed.rend() - last)};
}

}  // namespace

nlohmann::ordered_json speculation_facts(const std::string& chain, const SpeculationStats& s) {
    using OrderedJson = nlohmann::ordered_json;
    return {{"chain", chain},
            {"rounds", s.rounds},
            {"proposed", s.proposed},
            {"accepted", s.accepted},
            {"siblings", s.siblings},
            {"siblings_accepted", s.rescued},
            {"accept_rate", s.accept_rate()},
            {"accept_len", s.accept_len()},
            {"alpha", s.alpha() ? OrderedJson(*s.alpha()) : OrderedJson()},
            {"draft_ms", s.draft_ms()},
            {"verify_ms", s.verify_ms()},
            {"proposed_at", by_place(s.proposed_at, s.proposed_at)},
            {"accepted_at", by_place(s.accepted_at, s.proposed_at)}};
}

}  // namespace trireme
