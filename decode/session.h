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
#include "runtime/archive.h"

namespace trireme {

/// What became of a turn. Times in milliseconds.
struct Turn {
    int64_t prompt_tokens = 0;
    bool reserved = true;  // room was made for them (KvView::reserve); else they push others out as they are read
    double prefill_ms = 0, decode_ms = 0;
    int64_t taken_up = 0;  // tokens of the answer that an earlier run has drawn
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
    ///
    /// Turns that a session which was taken up has answered are shown again, and the one under way goes on: `ids` must
    /// be what was read, with Exit::kConfig.
    std::optional<Turn> answer(std::span<const int32_t> ids, int64_t most, const StopRules& rules,
                               const OnToken& on_token = {}, const Interrupt& interrupt = {});

    /// Called when a turn has been read, before anything is drawn.
    void on_read(std::function<void()> read) { read_ = std::move(read); }
    /// All that was said, without what ended answers (EOS). The model has read it, but for the last token, perhaps.
    const std::vector<int32_t>& text() const { return text_; }
    /// Where the answer under way, or the last one, begins in text().
    int64_t answer_begin() const { return answer_begin_; }
    /// The session begins behind a text, of which the model has read its length.
    void adopt(std::vector<int32_t> text);
    /// What was said. The model's own state is told elsewhere (Level::state).
    void state(Archive& ar);
    /// Behind state() and the model's: whether they belong together. The last token's logits are
    /// what was saved, or, without `logits`, computed again if they are what draws the next one. Errors: Exit::kData.
    void taken_up(bool logits);

  private:
    struct Said {
        std::vector<int32_t> ids, answer;
        int64_t prompt_tokens = 0;
        bool reserved = true, done = false;
        StopReason stop = StopReason::kLimit;
    };
    bool read(std::span<const int32_t> ids, Turn& turn, const Interrupt& interrupt);
    std::span<const int32_t> unread() const;

    Level& model_;
    const Tokenizer* tokenizer_;
    SamplingParams sampling_;
    uint64_t seed_;
    std::function<void()> read_;
    uint32_t turn_ = 0;       // the next one
    std::vector<Said> said_;  // as many, or more where a session was taken up
    std::vector<int32_t> text_;
    int64_t answer_begin_ = 0;
};

}  // namespace trireme
