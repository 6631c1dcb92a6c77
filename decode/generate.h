#pragma once
/// A prompt to its continuations: prefill, rounds of a proposer, statistics.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "decode/continuation.h"
#include "decode/proposer.h"
#include "offload/stream/transport.h"

namespace trireme {

struct GenerateRequest {
    std::vector<int32_t> prompt;  // at least one id
    int64_t max_new = -1;         // -1: until a stop or the end of the context
    int64_t num_samples = 1;      // independent continuations of one prefill
    int64_t first_sample = 0;     // number of the first of them: what is drawn depends on the seed and on that
    StopRules stops = {};
    // A first sample that has these tokens already, and is shown them again. `goes_on`: the proposer stands behind
    // them; else it begins a sample of another number there: what it draws is not what it drew before.
    std::vector<int32_t> resumed = {};
    bool goes_on = false;
    std::function<void()> begun = {};  // called when the first sample has begun, before anything is drawn
};

/// Named as in reports. Times in milliseconds.
struct GenerateStats {
    int64_t prompt_tokens = 0, new_tokens = 0, rounds = 0;
    double prefill_ms = 0;             // prompt to logits
    double taken_up_ms = 0;            // instead of that: the prompt's keys and values from a snapshot
    int64_t passes = 1;                // of the prompt, over layers that read later ones
    double warmup_ms = 0;              // of that call; 0: there is none
    double ttft_ms = 0;                // prompt to first token, the warm-up included
    double decode_ms = 0;              // all tokens but each sample's first
    double tpot_ms = 0;                // decode_ms per such token
    uint64_t read_bytes_per_step = 0;  // weights, and KV at the mean length, this rank
    // What is still under way when the prefill ends counts for the decoding behind it.
    LinkUse prefill_link, decode_link;
};

/// Asked once after every round, with its tokens that count; true ends the sample and the run
/// (StopReason::kInterrupted). Ranks must answer alike.
using Interrupt = std::function<bool(std::span<const int32_t> round)>;

/// How many tokens a continuation behind so many of a prompt may have, in a context of so many, and why it ends there.
struct MostTokens {
    int64_t tokens;
    StopReason why;
};
MostTokens most_tokens(const GenerateRequest& request, int64_t prompt, int64_t context);

/// The first half of generate(): the target reads the prompt, and `stats` begins anew.
/// Errors: Exit::kConfig for an empty prompt, ids out of range, a prompt that leaves no room in the context.
void read_prompt(Decoder& proposer, const GenerateRequest& request, GenerateStats& stats, const Progress& prefill = {});

/// What may come between the halves: measurements. It may change the current logits of levels, and what they have
/// staged. `stats` are told what it takes.
using WarmUp = std::function<void()>;
void warm_up(const WarmUp& call, GenerateStats& stats);

/// The second half: the samples behind a prompt that `proposer` has read or adopted. Adds to `stats`, which are those
/// of the prefill.
std::vector<Continuation> continue_prompt(Decoder& proposer, const Tokenizer* tokenizer, const GenerateRequest& request,
                                          GenerateStats& stats, const OnToken& on_token = {},
                                          const Interrupt& interrupt = {});

/// Times the second half where its samples are decoded side by side: adds to `stats` what it takes, and what crosses
/// the link meanwhile.
class SecondHalf {
  public:
    SecondHalf(Level& model, GenerateStats& stats);
    void first_token();
    /// Blocks until the link is at rest.
    void end(int64_t samples);

  private:
    Level& model_;
    GenerateStats& stats_;
    LinkUse link_before_;
    uint64_t begin_ns_, first_ns_ = 0;  // 0: there is none
};

/// All of them, `between` if there will be a token. `tokenizer` may be null when only ids are wanted (then there are no
/// stop strings). Fewer samples than asked for if interrupted. Errors: as read_prompt.
std::vector<Continuation> generate(Decoder& proposer, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token = {}, const Progress& prefill = {},
                                   const Interrupt& interrupt = {}, const WarmUp& between = {});

}  // namespace trireme
