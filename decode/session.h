#pragma once
/// Session: a conversation (--session) on one KV cache that is never reset. Each turn is read after all earlier ones,
/// as far as the cache retains them, and answered by a decoder, which may speculate.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "decode/continuation.h"
#include "decode/generate.h"
#include "decode/plain.h"
#include "runtime/archive.h"

namespace trireme {

/// The result of one turn. Times in milliseconds.
struct Turn {
    // Tokens that the turn's prefill reads: its ids, and the previous answer's last token if that was not read yet.
    int64_t prompt_tokens = 0;
    bool reserved = true;  // room was made for them first (KvCache::reserve); else they evict others as they are read
    double prefill_ms = 0, decode_ms = 0;
    int64_t resumed = 0;  // answer tokens that an earlier run has drawn
    Continuation answer;
};

class Session {
  public:
    /// `decoder` uses sequence 0 of its target. `tokenizer` may be null if only ids are required. Both must outlive the
    /// object.
    Session(Decoder& decoder, const Tokenizer* tokenizer);

    /// Reads a turn's ids and answers with at most `most` tokens; turn i uses the draws of sample i of a prompt. An EOS
    /// token does not enter the cache; the last token that a limit allows enters it with the next turn. `interrupt` is
    /// called after each round, and, without tokens, while the turn is read. If it returns true during reading, nothing
    /// is returned, and the session is over. Errors: Exit::kConfig for no ids, ids outside the vocabulary, or a turn
    /// that does not fit the context.
    ///
    /// A resumed session reports its answered turns again, and continues the turn in progress. `ids` must then equal
    /// those that were read, else Exit::kConfig.
    std::optional<Turn> answer(std::span<const int32_t> ids, int64_t most, const StopRules& rules,
                               const OnToken& on_token = {}, const Interrupt& interrupt = {});

    /// Reads ids that belong to no turn: a document before the first question. Errors: as answer().
    void read_ahead(std::span<const int32_t> ids, const Progress& progress = {});
    /// The next turn follows the last answer, also one that was interrupted, or that a resumed session would continue
    /// or report again.
    void close_answer();

    /// Sets a function to call when a turn has been read, before anything is drawn.
    void on_read(std::function<void()> read) { read_ = std::move(read); }
    /// The whole conversation without EOS tokens. The model has processed all but possibly the last token.
    const std::vector<int32_t>& text() const { return text_; }
    /// Index in text() where the current answer, or the last one, begins.
    int64_t answer_begin() const { return answer_begin_; }
    /// Begins the session after this sequence, of which the model has read the first Level::length() tokens. They
    /// belong to no turn.
    void adopt(std::vector<int32_t> text);
    /// Serialises the conversation. The model's state is serialised separately (Level::state).
    void state(Archive& ar);
    /// How much of an earlier run was restored, apart from this object's state: the decoder's state; the level's state
    /// with saved logits, of plain decoding; or only the level's KV cache.
    enum class Restored { kDecoder, kLevel, kCache };
    /// To be called after this state and the others were restored: checks that they belong together, and makes the
    /// decoder continue the turn in progress. With kCache it may draw other tokens, of the same distribution. `plain`:
    /// the decoder, with kLevel. Errors: Exit::kData.
    void resume(Restored restored, Plain* plain = nullptr);

  private:
    struct TurnRecord {
        std::vector<int32_t> ids, answer;
        int64_t prompt_tokens = 0;
        bool reserved = true, done = false;
        StopReason stop = StopReason::kLimit;
    };
    bool read(std::span<const int32_t> ids, Turn& turn, const Interrupt& interrupt);
    bool append(const std::vector<int32_t>& ids, const Progress& progress);
    std::span<const int32_t> unread() const;

    Decoder& decoder_;
    Level& model_;
    const Tokenizer* tokenizer_;
    std::function<void()> read_;
    /// Where the decoder stands: the next answer has to begin(); it has begun; or it has tokens of an earlier run.
    enum class Stands : uint8_t { kBefore, kAtPrompt, kInAnswer };
    Stands stands_ = Stands::kBefore;
    uint32_t turn_ = 0;             // number of the next turn
    std::vector<TurnRecord> said_;  // turn_ entries, or more in a resumed session
    std::vector<int32_t> text_;
    int64_t answer_begin_ = 0;
};

}  // namespace trireme
