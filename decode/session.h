#pragma once
/// Turns of a conversation on one cache that is never reset: each is read behind all that was said before, as far as
/// the view keeps it, and answered.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decode/continuation.h"
#include "decode/generate.h"
#include "model/level.h"

namespace trireme {

/// What became of a turn. Times in milliseconds.
struct Turn {
    int64_t prompt_tokens = 0;
    bool reserved = true;  // room was made for them (KvView::reserve); else they push others out as they are read
    double prefill_ms = 0, decode_ms = 0;
    Continuation answer;
};

class Session {
  public:
    /// `tokenizer` may be null when only ids are wanted. Errors: Exit::kConfig for illegal sampling.
    Session(Level& model, const Tokenizer* tokenizer, const SamplingParams& sampling, uint64_t seed);

    /// Reads a turn's ids and answers with at most `most` tokens; turn i draws what sample i of a prompt would. A token
    /// that ends the answer (EOS) does not go into the cache; the last one that a limit allows goes there with the next
    /// turn. `interrupt` is asked behind each token, and while the turn is read, then with no tokens: nothing is
    /// returned if that is given up, and the session is over. Errors: Exit::kConfig for no ids, ids outside the
    /// vocabulary, or a turn that does not fit the context.
    std::optional<Turn> answer(std::span<const int32_t> ids, int64_t most, const StopRules& rules,
                               const OnToken& on_token = {}, const Interrupt& interrupt = {});

  private:
    Level& model_;
    const Tokenizer* tokenizer_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t turn_ = 0;
    std::vector<int32_t> unread_;  // the last token drawn, if it is part of the text
};

}  // namespace trireme
