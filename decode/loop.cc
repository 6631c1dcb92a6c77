#include "decode/loop.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/trace.h"

namespace trireme {

Loop::Loop(Level& target, int64_t slots, Ended ended)
    : target_(target), ended_(std::move(ended)), slots_(static_cast<size_t>(slots)), path_(kMaxRows) {
    check(slots <= target.cache().shape().sequences, "{} batch slots on {} sequences", slots,
          target.cache().shape().sequences);
    std::iota(path_.begin(), path_.end(), 0);
    rows_.rows.reserve(kMaxRows);
    rows_.uniforms.reserve(kMaxRows);
    computed_.reserve(slots_.size());
}

std::optional<int> Loop::vacant() const {
    const auto found = std::ranges::find(slots_, nullptr, &Slot::decoder);
    if (found == slots_.end()) return std::nullopt;
    return static_cast<int>(found - slots_.begin());
}

bool Loop::empty() const {
    return std::ranges::all_of(slots_, [](const Slot& s) { return s.decoder == nullptr; });
}

void Loop::begin(Decoder& decoder, int64_t id, std::unique_ptr<ContinuationBuilder> text) {
    Slot& s = slots_[index(decoder.sequence())];
    check(s.decoder == nullptr && id >= 0 && &decoder.target() == &target_, "slot {} decodes {}, and is to decode {}",
          decoder.sequence(), s.id, id);
    s = {.decoder = &decoder, .id = id, .text = std::move(text)};
    if (s.text->done()) end(s);
}

void Loop::draw_first(const Decoder& decoder, std::vector<int32_t>& round) {
    Slot& s = slots_[index(decoder.sequence())];
    if (s.decoder != &decoder) return;  // it has ended
    check(s.decoder->draft(s.text->left()) == 0, "{}: no logits to draw the first token from", decoder.name());
    take(s, s.decoder->settle({}), round);
}

void Loop::step(std::vector<int32_t>& round) {
    for (Slot& s : slots_) s.rows = 0;
    for (size_t next = 0; next < slots_.size();) {
        rows_.clear();
        computed_.clear();
        for (; next < slots_.size(); ++next) {
            Slot& s = slots_[next];
            if (s.decoder == nullptr) continue;
            if (s.rows == 0) s.rows = s.decoder->draft(s.text->left());
            const auto first = static_cast<int64_t>(rows_.rows.size());
            if (first + s.rows > kMaxRows) break;  // in the next forward
            s.decoder->append_rows(rows_);
            s.first = first;
            s.settled = false;
            computed_.push_back(&s);
        }
        if (!computed_.empty()) forward(round);
    }
}

void Loop::forward(std::vector<int32_t>& round) {
    begin_ns_ = trace::now();
    target_.extend(rows_.rows);
    ++forwards_;
    // Sampling parameters are nearly always equal. Where they differ, each set of them draws for all rows, and only its
    // own rows use the result.
    for (const Slot* s : computed_) {
        if (!s->settled) settle(s->decoder->sampling(), round);
    }
}

/// Settles the continuations with these sampling parameters.
void Loop::settle(const SamplingParams& sampling, std::vector<int32_t>& round) {
    const SamplingParams now = sampling;  // a continuation that ends may take its decoder along
    RoundResult result = {.begin_ns = begin_ns_};
    if (rows_.draws) result.drawn = target_.logits().sample(now, rows_.uniforms, rows_.accepts);
    for (Slot* s : computed_) {
        if (s->settled || s->decoder->sampling() != now) continue;
        s->settled = true;
        result.end = s->first + s->rows;
        take(*s, s->decoder->settle(result), round);
    }
}

/// Appends a round's tokens to a continuation. A block may run past EOS, a stop string or the limit: later tokens are
/// not part of the sequence.
void Loop::take(Slot& s, std::span<const Proposed> tokens, std::vector<int32_t>& round) {
    check(!tokens.empty() && tokens.size() <= path_.size(), "{}: a round of {} tokens", s.decoder->name(),
          tokens.size());
    size_t taken = 0;
    for (; taken < tokens.size() && !s.text->done(); ++taken) {
        check(tokens[taken].parent == static_cast<int32_t>(taken) - 1, "{}: the outermost proposal is no chain",
              s.decoder->name());
        s.text->take(tokens[taken].token);
        round.push_back(tokens[taken].token);
    }
    s.decoder->resolve(std::span(path_).first(taken), -1);
    if (s.text->done()) end(s);
}

void Loop::end(Slot& s) {
    s.decoder = nullptr;
    ended_(s.id, s.text->finish());
}

void Loop::stop() {
    for (Slot& s : slots_) {
        if (s.decoder == nullptr) continue;
        s.text->stop(StopReason::kInterrupted);
        end(s);
    }
}

}  // namespace trireme
