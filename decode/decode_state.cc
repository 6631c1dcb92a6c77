#include "decode/decode_state.h"

#include <algorithm>

#include "decode/prompt_ids.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

void DecodeState::take_part(std::span<const int32_t> prompt) {
    const KvCache::PromptPart part = level_.cache().part_of_prompt(static_cast<int64_t>(prompt.size()));
    const std::span<const int32_t> last = prompt.last(index(part.last));
    prompt_.assign(prompt.begin(), prompt.begin() + part.first);
    prompt_.insert(prompt_.end(), last.begin(), last.end());
}

void DecodeState::adopt(std::span<const int32_t> prompt) {
    take_part(prompt);
    check(committed() >= tokens(prompt_), "text: a prompt of {} tokens is to be adopted, the level holds {}",
          tokens(prompt_), committed());
    level_.truncate(sequence_, tokens(prompt_));
}

void DecodeState::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    if (const int64_t there = level_.cache().adopt_length(); there >= 0) {
        check(there == static_cast<int64_t>(prompt.size()), "text: {} tokens are there of a prompt of {}", there,
              prompt.size());
        prompt_.assign(prompt.begin(), prompt.end());
        return;
    }
    take_part(prompt);
    level_.truncate(sequence_, 0);
    level_.prefill(sequence_, prompt_, progress);
    level_.logits().save();
}

void DecodeState::read_on(std::span<const int32_t> text, const Progress& progress) {
    check(staged_.empty() && committed() < static_cast<int64_t>(text.size()),
          "text: {} tokens to read, {} are there, {} rows staged", text.size(), committed(), staged_.size());
    pending_.clear();
    level_.prefill(sequence_, text.subspan(index(committed())), progress);
    level_.logits().save();
    prompt_.assign(text.begin(), text.end());
}

void DecodeState::resume(std::span<const int32_t> text) {
    const auto computed = static_cast<size_t>(committed());
    check(computed <= text.size() && text.size() <= computed + 1, "text: {} tokens to resume, {} are there",
          text.size(), computed);
    prompt_.assign(text.begin(), text.begin() + committed());
    pending_.assign(text.begin() + committed(), text.end());
    staged_.clear();
    at_prompt_ = pending_.empty();
    if (at_prompt_) level_.logits().restore();
}

void DecodeState::begin() {
    staged_.clear();
    pending_.clear();
    // If another level fills this cache, that level has the prompt's logits and samples the first token.
    if (at_prompt_ = level_.cache().adopt_length() < 0; !at_prompt_) return;
    if (level_.cache().can_truncate(sequence_, tokens(prompt_))) {
        level_.truncate(sequence_, tokens(prompt_));
        level_.logits().restore();
    } else {
        level_.truncate(sequence_, 0);
        level_.prefill(sequence_, prompt_);
    }
}

void DecodeState::append(int32_t token) {
    pending_.push_back(token);
    at_prompt_ = false;
}

void DecodeState::append_pending(std::vector<Row>& rows) {
    check(!pending_.empty(), "text: nothing is pending, and no logits are available");
    first_row_ = level_.cache().staged().size() + static_cast<int32_t>(rows.size());
    int32_t parent = staged_.empty() ? -1 : staged_.back();
    auto position = static_cast<int32_t>(committed() + tokens(staged_));
    int32_t row = first_row_;
    for (const int32_t token : pending_) {
        rows.push_back({.token = token, .position = position++, .parent = parent, .sequence = sequence_});
        parent = row++;
    }
}

void DecodeState::accept_rows(std::span<const int32_t> path) {
    for (int32_t r = 0; r < tokens(pending_); ++r) staged_.push_back(first_row_ + r);
    for (const int32_t r : path) staged_.push_back(first_row_ + r);
    pending_.clear();
}

Row DecodeState::tip() {
    check(pending_.empty(), "text: {} tokens are pending", pending_.size());
    at_prompt_ = false;
    return {.token = -1,
            .position = static_cast<int32_t>(length()),
            .parent = staged_.empty() ? -1 : staged_.back(),
            .sequence = sequence_};
}

void DecodeState::accept_staged(std::span<const int32_t> path) {
    check(pending_.empty() || path.empty(), "text: {} tokens are pending", pending_.size());
    staged_.insert(staged_.end(), path.begin(), path.end());
}

void DecodeState::commit() {
    const int64_t text = length();
    if (const int64_t there = level_.cache().adopt_length(); there >= 0) {
        const int64_t behind = text - there;
        check(behind >= 0 && behind <= pending(), "text: {} of {} tokens are there, {} are not computed", there, text,
              pending());
        pending_.erase(pending_.begin(), pending_.end() - behind);
        staged_.clear();
        return;
    }
    if (staged_.empty()) {
        level_.cache().drop(sequence_);
    } else {
        level_.keep(sequence_, staged_);
    }
    staged_.clear();
    pending_.erase(pending_.begin(), pending_.end() - std::min(pending(), kMostPending));
}

void DecodeState::state(Archive& ar, bool tiles) {
    check(staged_.empty(), "text: {} rows are not settled", staged_.size());
    level_.cache().drop(sequence_);
    level_.state(ar, tiles);
    ar.values(prompt_);
    ar.values(pending_);
    ar.value(at_prompt_);
    check_ids(pending_, level_.config().vocab);
    if (ar.loads() && at_prompt_) level_.logits().restore();
}

void DecodeState::truncate(int64_t n, int32_t next) {
    check(n >= tokens(prompt_) && n <= length(), "text: {} of {} tokens are to stay, {} of them the prompt's", n,
          length(), tokens(prompt_));
    if (n < committed()) level_.truncate(sequence_, n);
    const int64_t behind = n - committed(), staged = std::min(behind, tokens(staged_));
    staged_.resize(static_cast<size_t>(staged));
    pending_.resize(static_cast<size_t>(behind - staged));
    if (next >= 0) append(next);
}

}  // namespace trireme
