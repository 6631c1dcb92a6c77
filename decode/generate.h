#pragma once
/// A prompt to its continuations: prefill, rounds of the chain, stopping, streaming text, statistics.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/sampling.h"
#include "model/level.h"
#include "model/tokenizer/tokenizer.h"
#include "offload/stream/transport.h"

namespace trireme {

struct GenerateRequest {
    std::vector<int32_t> prompt;  // at least one id
    int64_t max_new = -1;         // -1: until a stop or the end of the context
    int64_t num_samples = 1;      // independent continuations of one prefill
    uint64_t seed = 0;
    SamplingParams sampling;
    std::vector<int32_t> eos = {};  // empty with --ignore-eos
    std::vector<std::string> stop = {};
};

enum class StopReason { kEos, kStopString, kLimit, kContext, kInterrupted };
const char* name_of(StopReason reason);

/// One continuation. `ids` has every generated id, EOS included; `text` ends before EOS, before a stop string, and
/// before a character of which only a part was generated. A stop string that is a special token stops at its id.
struct Continuation {
    std::vector<int32_t> ids;
    std::string text;
    StopReason stop = StopReason::kLimit;
};

/// Metric names as in reports (DESIGN section 4). Times in milliseconds.
struct GenerateStats {
    int64_t prompt_tokens = 0, new_tokens = 0, rounds = 0;
    double prefill_ms = 0;              // prompt to logits
    double ttft_ms = 0;                 // prompt to first token
    double decode_ms = 0;               // all tokens but each sample's first
    double tpot_ms = 0;                 // decode_ms per such token
    uint64_t read_bytes_per_token = 0;  // weights + KV at the mean length, this rank
    // What is still under way when the prefill ends counts for the decoding behind it.
    LinkUse prefill_link, decode_link;
};

/// Called on every rank as text becomes printable; text may be empty. `id` < 0: the sample's end, and what was held.
using OnToken = std::function<void(int64_t sample, int32_t id, std::string_view text)>;
/// Asked after every token `id`; true ends the sample and the run (StopReason::kInterrupted). Ranks must answer alike.
using Interrupt = std::function<bool(int32_t id)>;

/// `tokenizer` may be null when only ids are wanted (then `stop` must be empty). Fewer samples than asked for if
/// interrupted.
/// Errors: Exit::kConfig for an empty prompt, ids out of range, a prompt that leaves no room in the context.
std::vector<Continuation> generate(Level& model, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token = {}, const Progress& prefill = {},
                                   const Interrupt& interrupt = {});

/// Natural-log probabilities of ids[1..] given what precedes them.
struct Score {
    std::vector<double> logprobs;  // one fewer than ids
    double perplexity = 0;
};
/// `each`, if given, receives every position's logits as they come (--dump-logits).
Score score(Level& model, const std::vector<int32_t>& ids, const Level::EachLogits& each = {},
            const Progress& progress = {});

}  // namespace trireme
