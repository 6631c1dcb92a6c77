#pragma once
/// A level and the text it stands behind. The text's beginning lies committed in the level's KV; then come tokens whose
/// rows are staged, and may still be taken back; then those that no forward has computed yet. Where another level's
/// view fills this one's (KvView::follow), that level reads prompts and keeps tokens, and does so first.

#include <cstdint>
#include <span>
#include <vector>

#include "model/level.h"

namespace trireme {

class TextLevel {
  public:
    explicit TextLevel(Level& level) : level_(level) {
        staged_.reserve(kMaxRows);
        pending_.reserve(2 * kMaxRows);
    }

    Level& level() const { return level_; }
    /// Nothing has come behind the prompt yet, and the logits of what follows are at hand.
    bool at_prompt() const { return at_prompt_; }
    /// Tokens of the text.
    int64_t length() const { return level_.length() + tokens(staged_) + tokens(pending_); }
    /// Tokens of it that no forward has computed.
    int64_t pending() const { return tokens(pending_); }
    /// Rows that may still be staged before settle() has to be called.
    int64_t room() const { return kMaxRows - level_.view().staged().size(); }

    /// Forgets everything and reads a prompt, or what the level's view wants to see of it. Blocks until done.
    void prefill(std::span<const int32_t> prompt, const Progress& progress);
    /// As prefill(), where another TextLevel's prefill() of this prompt was the level's last.
    void adopt(std::span<const int32_t> prompt);
    /// Back to where the prefill ended; its logits are the level's current ones.
    void begin();

    /// Behind the text stands one more token.
    void append(int32_t token);
    /// `rows` becomes the rows of the tokens that are not computed yet, at least one: a chain behind the text. They are
    /// to be the first ones of the level's next extend().
    void rows_of_pending(std::vector<Row>& rows);
    /// That extend() has been called; of its other rows this path, by number in its rows, is text, too.
    void computed(std::span<const int32_t> path = {});
    /// Position and parent of the first rows of a tree that grows behind the text by further extend()s; nothing is
    /// pending. They take the place of the logits that are at hand.
    Row tip();
    /// Of that tree these rows, by their numbers among the level's staged ones, are text, too: a path from its first
    /// row.
    void take(std::span<const int32_t> path);
    /// The text is never taken back: what has been computed goes into the level's KV, other staged rows are dropped.
    /// Where tokens have piled up that nobody had computed, they are computed now.
    void settle();
    /// What it knows, settled; the level's, too, but for tiles that are told elsewhere.
    void state(Archive& ar, bool tiles);
    /// The text is its first n tokens and, behind them, `next`; -1: nothing.
    void end_at(int64_t n, int32_t next);

  private:
    void take_part(std::span<const int32_t> prompt);
    static int64_t tokens(const std::vector<int32_t>& v) { return static_cast<int64_t>(v.size()); }

    void keep_staged();
    void catch_up();

    Level& level_;
    std::vector<int32_t> prompt_;  // what was read of it
    bool at_prompt_ = false;
    std::vector<int32_t> staged_;   // rows
    std::vector<int32_t> pending_;  // tokens
    int32_t first_row_ = 0;         // of the extend() that rows_of_pending() was for
    std::vector<Row> rows_;         // of catch_up()
};

}  // namespace trireme
