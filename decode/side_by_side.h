#pragma once
/// Samples of one prompt that are decoded side by side: a forward computes one token of each.

#include <cstdint>
#include <vector>

#include "decode/generate.h"
#include "decode/sampling.h"

namespace trireme {

/// generate(), with up to `parallel` samples at a time. `plain` decodes by its target alone, with these parameters and
/// seed (decode/plain.h), and the target has as many sequences, which may have tokens of the prompt in common. Each
/// sample's tokens are those that it has when it is decoded alone. A forward has at most kMaxRows rows: of more samples
/// there are several. A finished sample's place goes to the next one. `on_token` gets the samples in their order, a
/// sample when those before it are complete. Errors: as generate.
std::vector<Continuation> generate_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token = {}, const Progress& prefill = {},
                                                const Interrupt& interrupt = {});

/// The second half, behind a prompt that `plain` has read or adopted (continue_prompt).
std::vector<Continuation> continue_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token = {}, const Interrupt& interrupt = {});

}  // namespace trireme
