#pragma once
/// Parallel samples of one prompt (-np, --parallel): a forward computes one token of each.

#include <cstdint>
#include <vector>

#include "decode/generate.h"
#include "decode/sampling.h"

namespace trireme {

/// Like generate(), with up to `parallel` samples at a time. `plain` must decode with its target alone
/// (decode/plain.h), with these sampling parameters and this seed; it reads the prompt and draws first tokens. The
/// target has `parallel` sequences, which may share tokens of the prompt. Each sample has the same tokens as when it is
/// decoded alone. More than kMaxRows samples take several forwards per step. A finished sample's slot goes to the next
/// one. `on_token` receives the samples in order: each one when all before it are complete. Errors: as generate.
std::vector<Continuation> generate_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token = {}, const Progress& prefill = {},
                                                const Interrupt& interrupt = {});

/// The second half, like continue_prompt(): decodes the samples after a prompt that `plain` has read or adopted.
std::vector<Continuation> continue_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token = {}, const Interrupt& interrupt = {});

}  // namespace trireme
