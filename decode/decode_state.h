#pragma once
/// DecodeState: a proposer's sequence in its level: committed prefix, staged rows, pending tokens. The prefix is in the
/// level's KV cache. Staged rows can still be rolled back. No forward has computed the pending tokens yet. If another
/// level's view fills this one's (KvView::adopt_length), that level reads the prompt and keeps tokens before this one.
/// The level's sequence is number 0.

#include <cstdint>
#include <span>
#include <vector>

#include "model/level.h"

namespace trireme {

class DecodeState {
  public:
    explicit DecodeState(Level& level) : level_(level) {
        staged_.reserve(kMaxRows);
        pending_.reserve(2 * kMaxRows);
    }

    Level& level() const { return level_; }
    /// True until the first token after the prompt: the level's logits are then those of the next token.
    bool at_prompt() const { return at_prompt_; }
    /// Tokens of the sequence.
    int64_t length() const { return level_.length() + tokens(staged_) + tokens(pending_); }
    /// Tokens that no forward has computed.
    int64_t pending() const { return tokens(pending_); }
    /// Rows that can be staged before commit() must be called.
    int64_t room() const { return kMaxRows - level_.view().staged().size(); }

    /// Discards all state and reads a prompt, or the part that the level's view requires; nothing if another level's
    /// view fills it. Blocks until done.
    void prefill(std::span<const int32_t> prompt, const Progress& progress);
    /// Like prefill(), if the level's last prefill was another DecodeState's, of this prompt.
    void adopt(std::span<const int32_t> prompt);
    /// Truncates to the prompt; the prefill's logits become the level's current ones. If the view cannot truncate to
    /// it, reads the prompt again.
    void begin();

    /// Appends one token.
    void append(int32_t token);
    /// Sets `rows` to the rows of the pending tokens: a chain after the computed tokens. At least one token must be
    /// pending. The level's next extend() must begin with these rows.
    void rows_of_pending(std::vector<Row>& rows);
    /// To be called after that extend(): the pending tokens become staged rows. `path`: accepted rows that follow them,
    /// as indices into that extend().
    void accept_rows(std::span<const int32_t> path = {});
    /// Returns position and parent for the first rows of a tree after the sequence, which further extend()s grow. Its
    /// token is -1. Nothing may be pending. The rows' logits replace the current ones.
    Row tip();
    /// Appends a path of that tree from its first row on, given as indices of the level's staged rows.
    void accept_staged(std::span<const int32_t> path);
    /// Makes the sequence final: commits its staged rows to the level's KV cache and drops other staged rows. If many
    /// tokens are pending, computes all but the last. If another level's view fills this one's, only adopts its length;
    /// that level must have committed before.
    void commit();
    /// Serialises this state and the level's, after commit(). Without `tiles`, the caller serialises full-view tiles.
    void state(Archive& ar, bool tiles);
    /// Truncates to n tokens, at least the prompt's, then appends `next` unless it is -1.
    void truncate(int64_t n, int32_t next);

  private:
    void take_part(std::span<const int32_t> prompt);
    static int64_t tokens(const std::vector<int32_t>& v) { return static_cast<int64_t>(v.size()); }

    void keep_staged();
    void catch_up();

    Level& level_;
    std::vector<int32_t> prompt_;  // the part that was read
    bool at_prompt_ = false;
    std::vector<int32_t> staged_;   // rows
    std::vector<int32_t> pending_;  // tokens
    int32_t first_row_ = 0;         // of the extend() that follows rows_of_pending()
    std::vector<Row> rows_;         // scratch of catch_up()
};

}  // namespace trireme
