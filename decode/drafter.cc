#include "decode/drafter.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/random.h"

namespace trireme {

Drafter::Drafter(const char* name, Device& device, Level& model, const SamplingParams& sampling, uint64_t seed,
                 uint32_t level, int64_t gamma)
    : name_(name), text_(model), held_(device, model, gamma), sampling_(sampling), seed_(seed), level_(level) {
    rows_.reserve(kMaxRows);
    uniforms_.reserve(kMaxRows);
    ends_.reserve(kMaxRows);
}

void Drafter::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    text_.prefill(prompt, progress);
}

void Drafter::begin(uint32_t sample) {
    text_.begin();
    sample_ = sample;
    round_ = 0;
    proposal_.clear();
}

std::span<const Proposed> Drafter::propose(int64_t limit) {
    Level& model = text_.level();
    const uint32_t round = round_++;
    // The first token takes one row per pending token; each later token takes one row.
    const int64_t n =
        std::min({limit, held_.size(), model.context() - text_.length(), text_.room() - text_.pending() + 1});
    proposal_.clear();
    for (int64_t i = 0; i < n; ++i) {
        int64_t rows = 1;
        if (!text_.at_prompt()) {
            text_.rows_of_pending(rows_);
            rows = static_cast<int64_t>(rows_.size());
            model.extend(rows_);
            text_.accept_rows();
        }
        draw(i, rows, round);
    }
    return proposal_.proposal();
}

/// Draws token i of the proposal and its siblings from the last of the current logits' rows.
void Drafter::draw(int64_t i, int64_t rows, uint32_t round) {
    DrawKey key = {.sample = sample_, .round = round, .level = level_, .node = static_cast<uint32_t>(i)};
    Logits& logits = text_.level().logits();
    uniforms_.assign(static_cast<size_t>(rows), uniform(seed_, key));
    const int32_t token = logits.sample(sampling_, uniforms_, /*distributions=*/true).back();
    proposal_.add(token, held_.hold(i, rows - 1));
    text_.append(token);
    if (siblings_ == 0) return;
    uniforms_.clear();
    append_sibling_uniforms(uniforms_, seed_, key, i, siblings_);
    ends_.assign(static_cast<size_t>(rows), 0);
    ends_.back() = static_cast<int32_t>(uniforms_.size());
    proposal_.add_siblings(logits.sample_siblings(sampling_, uniforms_, ends_), siblings_, sampling_.greedy());
}

// The proposed tokens were already appended: rejected ones are rolled back.
void Drafter::resolve(std::span<const int32_t> path, int32_t next) {
    const BranchedChain::Kept kept = proposal_.kept(path, name_);
    const int64_t drop = proposal_.length() - kept.length;
    proposal_.clear();
    rewind(drop, kept.sibling);
    if (next >= 0) rewind(0, next);
}

void Drafter::rewind(int64_t n, int32_t next) {
    text_.truncate(text_.length() - n, next);
}

void Drafter::state(Archive& ar) {
    ar.section(name_);
    text_.state(ar, /*tiles=*/true);
    for (uint32_t* n : {&sample_, &round_}) ar.value(*n);
}

void Drafter::commit() {
    text_.commit();
}

}  // namespace trireme
