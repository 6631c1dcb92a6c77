#pragma once
/// The worked example of H2O's specification (h2o.md 8.2), and one head of slots that runs it.

#include "tests/kernels/slots_harness.h"

namespace trireme::test {

using Weights = std::vector<double>;
using Tokens = std::vector<int32_t>;

// Unnormalised weights of query i on key j. All softmaxes over retained tokens are fractions of powers of two.
inline const std::vector<Weights> kWorked = {{1},
                                             {1, 1},
                                             {2, 1, 1},
                                             {2, 1, 3, 2},
                                             {4, 1, 1, 1, 1},
                                             {1, 1, 16, 12, 1, 1},
                                             {1, 15, 9, 1, 1, 4, 1},
                                             {1, 63, 1, 1, 32, 28, 1, 1}};
inline constexpr KvLayout kOneHead = {1, 8, DType::kF32, DType::kF32};

/// The attention that each token receives in a call whose queries are the last `fresh` of them.
inline Weights attention_of(const std::vector<Weights>& rows, const Tokens& tokens, int64_t fresh) {
    Weights sums(tokens.size(), 0);
    for (size_t i = tokens.size() - static_cast<size_t>(fresh); i < tokens.size(); ++i) {
        const Weights& row = rows[static_cast<size_t>(tokens[i])];
        double all = 0;
        for (size_t j = 0; j <= i; ++j) all += row[static_cast<size_t>(tokens[j])];
        for (size_t j = 0; j <= i; ++j) sums[j] += row[static_cast<size_t>(tokens[j])] / all;
    }
    return sums;
}

/// One head that runs the worked example; by default H = 2, R = 2.
struct Worked {
    explicit Worked(const SlotRule& how = {.by = ScoreBy::kSum, .recent = 2}, int64_t tokens = 4)
        : slots(kOneHead, 1, tokens, static_cast<int32_t>(tokens)), rule(how) {}

    Tokens with(int64_t fresh) {
        Tokens all = slots.kept(0, 0);
        for (int64_t i = 0; i < fresh; ++i) all.push_back(static_cast<int32_t>(next + i));
        return all;
    }
    void call(int64_t fresh) {
        const Tokens all = with(fresh);
        const auto n = static_cast<int64_t>(all.size());
        Entries entries(kOneHead, n, 3);
        end_call(m, slots, entries, rule, {.owner = 0, .cached = n - fresh, .fresh = fresh, .first_token = next},
                 {attention_of(rows, all, fresh)});
        next += fresh;
    }
    void step() {
        end_step(m, slots, rule, next, {attention_of(rows, with(1), 1)});
        ++next;
    }

    Machine m;
    Slots slots;
    std::vector<Weights> rows = kWorked;
    SlotRule rule;
    int64_t next = 0;
};

}  // namespace trireme::test
