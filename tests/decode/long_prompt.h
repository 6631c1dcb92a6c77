#pragma once
/// Test fixture: a long prompt for the small trained model, for chains whose proposer sees a part of it.

#include <numeric>
#include <string>
#include <vector>

#include "decode/speculate.h"
#include "offload/plan/plan.h"
#include "tests/decode/kjv_prompt.h"

namespace trireme::test {

class LongPrompt : public KjvPrompt {
  protected:
    // About 900 tokens: a passage that repeats, with one other sentence after its fourth repetition.
    void SetUp() override {
        std::string text;
        for (int i = 0; i < 12; ++i) {
            text +=
                "And the sons of Ham; Cush, and Mizraim, and Phut, and Canaan. And Cush begat Nimrod: he began to be a "
                "mighty one in the earth. ";
            text += i == 3 ? "Now the name of the servant was Eliezer of Damascus, and he dwelt by the well. " : "";
        }
        request.prompt = tokenizer->encode(text + "And the LORD said unto", true);
        request.max_new = 80;
        ASSERT_GT(request.prompt.size(), 600U);
        plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    }
    /// `on_chip`: the number of layers on chip, out of 6; `context`: tokens.
    LevelOptions options(int64_t on_chip, int64_t context = 2048) const {
        LevelOptions o = kExact.level();
        o.context = context;
        if (on_chip < 6) o.residency = {.on_chip = interleaved(6, on_chip), .span_bytes = 1 << 16};
        return o;
    }
    std::vector<int32_t> ids_of(Decoder& decoder, const PlainRequest& r) { return test::ids_of(decoder, r, stats); }
    /// Sample 2 of the request, alone or after samples 0 and 1: its tokens and, negated, the accepted tokens of each
    /// round.
    std::vector<int32_t> rounds_of_sample_2(Speculate& speculate, bool two_before) {
        speculate.prefill(request.prompt, {});
        std::vector<int32_t> ids;
        for (uint32_t sample = two_before ? 0 : 2; sample <= 2; ++sample) {
            ids.clear();
            speculate.begin(sample);
            while (ids.size() < 120) {
                const std::span<const Proposed> round = speculate.propose(60);
                for (const Proposed& p : round) ids.push_back(p.token);
                std::vector<int32_t> path(round.size());
                std::iota(path.begin(), path.end(), 0);
                speculate.resolve(path, -1);
                ids.push_back(-static_cast<int32_t>(round.size()));
            }
        }
        return ids;
    }
    std::vector<int32_t> plain;
};

}  // namespace trireme::test
