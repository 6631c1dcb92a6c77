#pragma once
/// generate(): continues a prompt with one or several samples: prefill, rounds of the run loop (loop.h), statistics.

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "decode/continuation.h"
#include "decode/proposer.h"
#include "offload/stream/transport.h"
#include "runtime/index.h"

namespace trireme {

struct GenerateRequest {
    std::vector<int32_t> prompt;  // at least one id
    int64_t max_new = -1;         // -1: until a stop rule or the end of the context
    int64_t num_samples = 1;      // independent continuations of one prefill
    int64_t first_sample = 0;     // number of the first sample; draws depend on the seed and this number
    StopRules stops = {};
    // Tokens that the first sample already has, from a snapshot; they are reported again. `exact`: the proposer's state
    // is the one after them. Otherwise a sample with another number begins there, so its draws are new.
    std::vector<int32_t> resumed = {};
    bool exact = false;
    std::function<void()> begun = {};  // called when the first sample has begun, before anything is drawn
};

/// Statistics of a run, named as in reports. Times in milliseconds.
struct GenerateStats {
    int64_t prompt_tokens = 0, new_tokens = 0;
    int64_t rounds = 0;                // first tokens of samples, then forwards of the model
    double prefill_ms = 0;             // prompt to logits
    double resume_ms = 0;              // instead of prefill_ms: restoring the prompt's KV from a snapshot
    int64_t passes = 1;                // passes of the prefill over layers that read later layers
    double warmup_ms = 0;              // time of warm_up(); 0: it was not called
    double ttft_ms = 0;                // prompt to first token of the first sample, including warm-up
    double decode_ms = 0;              // all tokens but each sample's first; of parallel samples together
    double tpot_ms = 0;                // decode_ms per such token
    uint64_t read_bytes_per_step = 0;  // weights, and KV at the mean length of the sequences, on this rank
    // Copies still in flight when the prefill ends are counted towards decoding.
    LinkUse prefill_link, decode_link;
};

/// Called after every round, with the round's tokens that became part of the sequence. Returning true ends the sample
/// and the run (StopReason::kInterrupted). All ranks must return the same value.
using Interrupt = std::function<bool(std::span<const int32_t> round)>;

/// The most new tokens of a sample, and which limit applies: kLimit or kContext.
struct MostTokens {
    int64_t tokens;
    StopReason why;
};
/// `prompt`: number of tokens of the prompt; `context`: the most tokens of a sequence.
MostTokens most_tokens(const GenerateRequest& request, int64_t prompt, int64_t context);

/// First half of generate(): resets `stats`, and `proposer` reads the prompt. Blocks until done. Errors: Exit::kConfig
/// for an empty prompt, ids out of range, a prompt that leaves no room in the context.
void read_prompt(Decoder& proposer, const GenerateRequest& request, GenerateStats& stats, const Progress& prefill = {});

/// Optional measurements between prefill and decoding; they may change the current logits and staged rows of levels.
/// warm_up() stores their time in `stats`.
using WarmUp = std::function<void()>;
void warm_up(const WarmUp& call, GenerateStats& stats);

/// Decoders of parallel samples: slot s decodes in sequence s of the same model, all with the same sampling parameters
/// and seed. They may share tokens of the prompt (KvShape::common). The first one reads the prompt.
class Slots {
  public:
    Slots(Decoder& one) : all_{&one} {}
    explicit Slots(std::vector<Decoder*> all) : all_(std::move(all)) {}
    Decoder& first() const { return *all_.front(); }
    Decoder& operator[](int slot) const { return *all_[index(slot)]; }
    int64_t size() const { return static_cast<int64_t>(all_.size()); }

  private:
    std::vector<Decoder*> all_;
};

/// Second half of generate(): decodes the samples after a prompt that the first slot has read or adopted. Adds to
/// `stats`, which must be the prefill's. Every sample has the tokens that it has alone. A finished sample's slot goes
/// to the next one. `on_token` receives the samples in order: each one when all before it are complete.
std::vector<Continuation> continue_prompt(const Slots& slots, const Tokenizer* tokenizer,
                                          const GenerateRequest& request, GenerateStats& stats,
                                          const OnToken& on_token = {}, const Interrupt& interrupt = {});

/// Runs both halves, and `between` after the first if a token will be generated. `tokenizer` may be null if only ids
/// are required (then there are no stop strings). Returns fewer samples if interrupted. Errors: as read_prompt.
std::vector<Continuation> generate(const Slots& slots, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token = {}, const Progress& prefill = {},
                                   const Interrupt& interrupt = {}, const WarmUp& between = {});

}  // namespace trireme
