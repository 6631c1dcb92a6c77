#pragma once
/// Plain decoding in one call, and the tokens of any decoder, for tests.

#include <vector>

#include "decode/generate.h"
#include "decode/plain.h"
#include "decode/score.h"

namespace trireme::test {

/// A GenerateRequest and its sampling parameters.
struct PlainRequest {
    std::vector<int32_t> prompt;
    int64_t max_new = -1;
    int64_t num_samples = 1;
    uint64_t seed = 0;
    SamplingParams sampling = {};
    std::vector<int32_t> eos = {};
    std::vector<std::string> stop = {};
};

inline std::vector<Continuation> generate(Level& model, const Tokenizer* tokenizer, const PlainRequest& r,
                                          GenerateStats& stats, const OnToken& on_token = {},
                                          const Progress& prefill = {}, const Interrupt& interrupt = {}) {
    Plain plain(model, r.sampling, r.seed);
    return trireme::generate(
        plain, tokenizer,
        {.prompt = r.prompt, .max_new = r.max_new, .num_samples = r.num_samples, .stops = {r.eos, r.stop}}, stats,
        on_token, prefill, interrupt);
}

/// The tokens of the first sample.
inline std::vector<int32_t> ids_of(Decoder& decoder, const PlainRequest& r, GenerateStats& stats,
                                   const Interrupt& each_round = {}) {
    const GenerateRequest request = {
        .prompt = r.prompt, .max_new = r.max_new, .num_samples = r.num_samples, .stops = {r.eos, {}}};
    return trireme::generate(decoder, nullptr, request, stats, {}, {}, each_round).at(0).ids;
}

}  // namespace trireme::test
