#pragma once
/// DecodeState: a proposer's sequence in its level: committed prefix, staged rows, pending tokens. The prefix is in the
/// level's KV cache. Staged rows can still be rolled back. No forward has computed the pending tokens yet. If another
/// level's cache fills this one's (KvCache::adopt_length), that level reads the prompt and keeps tokens before this
/// one.

#include <cstdint>
#include <span>
#include <vector>

#include "model/level.h"

namespace trireme {

class DecodeState {
  public:
    /// Sequence `sequence` of `level` is used by this object alone.
    explicit DecodeState(Level& level, int sequence = 0) : level_(level), sequence_(sequence) {
        staged_.reserve(kMaxRows);
        pending_.reserve(2 * kMaxRows);
    }

    Level& level() const { return level_; }
    int sequence() const { return sequence_; }
    /// True until the first token after the prompt: the level's logits are then those of the next token.
    bool at_prompt() const { return at_prompt_; }
    /// Tokens of the sequence that the level has read or will read.
    int64_t length() const { return committed() + tokens(staged_) + tokens(pending_); }
    /// Tokens that no forward has computed.
    int64_t pending() const { return tokens(pending_); }
    /// Rows that can be staged before commit() must be called.
    int64_t room() const { return kMaxRows - level_.cache().staged().size(); }

    /// Discards all state and reads a prompt, or the part that the level's cache requires; nothing if another level's
    /// cache fills it. Blocks until done.
    void prefill(std::span<const int32_t> prompt, const Progress& progress);
    /// Like prefill(), if the sequence already begins with this prompt, and the level's last prefill was of it.
    void adopt(std::span<const int32_t> prompt);
    /// Reads the tokens of `text` that the level has not computed; `text` begins with those that it has. Later begin()s
    /// begin after it. Blocks until done.
    void read_on(std::span<const int32_t> text, const Progress& progress);
    /// Resumes `text`, of which the level has computed all but at most one token. Without that token, the level's saved
    /// logits become current.
    void resume(std::span<const int32_t> text);
    /// Truncates to the prompt; the prefill's logits become the level's current ones. If the cache cannot truncate to
    /// it, reads the prompt again.
    void begin();

    /// Appends one token.
    void append(int32_t token);
    /// Appends the rows of the pending tokens to `rows`: a chain after the computed tokens. At least one token must be
    /// pending. The level's next extend() must be of `rows`, which may begin with rows of other sequences.
    void append_pending(std::vector<Row>& rows);
    /// Sets `rows` to them.
    void rows_of_pending(std::vector<Row>& rows) {
        rows.clear();
        append_pending(rows);
    }
    /// To be called after that extend(): the pending tokens become staged rows. `path`: accepted rows that follow them,
    /// as indices from the first pending token's row on.
    void accept_rows(std::span<const int32_t> path = {});
    /// Returns position and parent for the first rows of a tree after the sequence, which further extend()s grow. Its
    /// token is -1. Nothing may be pending. The rows' logits replace the current ones.
    Row tip();
    /// Appends a path of that tree from its first row on, given as indices of the level's staged rows.
    void accept_staged(std::span<const int32_t> path);
    /// Makes the sequence final: commits its staged rows to the level's KV cache and drops other staged rows. Keeps
    /// only the last kMostPending pending tokens: the level never reads earlier ones, and length() does not count them.
    /// So a drafting level costs nothing while nothing is drafted. If another level's cache fills this one's, only
    /// adopts its length; that level must have committed before.
    void commit();
    static constexpr int64_t kMostPending = 16;
    /// Serialises this state and the level's, after commit(). Without `tiles`, the caller serialises full-cache tiles.
    void state(Archive& ar, bool tiles);
    /// Truncates to n tokens, at least the prompt's, then appends `next` unless it is -1.
    void truncate(int64_t n, int32_t next);

  private:
    void take_part(std::span<const int32_t> prompt);
    int64_t committed() const { return level_.length(sequence_); }
    static int64_t tokens(const std::vector<int32_t>& v) { return static_cast<int64_t>(v.size()); }

    Level& level_;
    int sequence_;
    std::vector<int32_t> prompt_;  // the part that was read
    bool at_prompt_ = false;
    std::vector<int32_t> staged_;   // rows
    std::vector<int32_t> pending_;  // tokens
    int32_t first_row_ = 0;         // the staged row of the first pending token, after append_pending()
};

}  // namespace trireme
