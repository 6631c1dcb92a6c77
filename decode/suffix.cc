#include "decode/suffix.h"

#include <algorithm>

#include "decode/gamma_controller.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

Suffix::Suffix(int64_t gamma, std::shared_ptr<const SuffixAutomaton> corpus)
    : gamma_(gamma), corpus_(std::move(corpus)), searched_{{{&output_, {}}, {&prompt_, {}}, {corpus_.get(), {}}}} {
    open_.reserve(2 * kMaxRows);
    proposal_.reserve(kMaxRows);
    chances_.reserve(kMaxRows);
}

void Suffix::prefill(std::span<const int32_t> prompt, const Progress&) {
    prompt_tokens_.assign(prompt.begin(), prompt.end());
    prompt_.clear();
    for (const int32_t token : prompt) prompt_.append(token);
    restart();
}

void Suffix::begin(uint32_t) {
    restart();
}

/// Returns to the end of the prompt.
void Suffix::restart() {
    final_.clear();
    open_.clear();
    output_.clear();
    const size_t border = prompt_tokens_.size() - std::min(prompt_tokens_.size(), kBorder);
    for (size_t i = border; i < prompt_tokens_.size(); ++i) output_.append(prompt_tokens_[i]);
    searched_[0].match = output_.repeated();
    searched_[1].match = prompt_.repeated();
    searched_[2].match = {};
    if (corpus_ == nullptr) return;
    for (size_t i = border; i < prompt_tokens_.size(); ++i) {
        searched_[2].match = corpus_->next(searched_[2].match, prompt_tokens_[i]);
    }
}

Suffix::Match Suffix::found(const Searched& in) const {
    Match match = in.match;
    for (const int32_t token : open_) match = in.text->next(match, token);
    return match;
}

std::span<const Proposed> Suffix::propose(int64_t limit) {
    proposal_.clear();
    const SuffixAutomaton* best = nullptr;
    Match longest = {.length = kShortest - 1};
    for (const Searched& in : searched_) {
        if (in.text == nullptr) continue;
        const Match match = found(in);
        if (match.length <= longest.length) continue;
        const SuffixAutomaton::Follower next = in.text->follower(match);
        if (next.token >= 0 && next.after.length > kShortest) {
            longest = match;
            best = in.text;
        }
    }
    if (best != nullptr) follow(*best, longest, std::min(limit, gamma_));
    return proposal_;
}

/// Proposes the most frequent followers, one after the other.
void Suffix::follow(const SuffixAutomaton& text, Match match, int64_t most) {
    chances_.clear();
    double chance = 1;
    for (int64_t depth = 1; depth <= most; ++depth) {
        const SuffixAutomaton::Follower next = text.follower(match);
        if (next.after.length <= kShortest) break;  // the text ends here, and its end occurs nowhere else in it
        if (next.token < 0) break;                  // between texts
        const double share = std::min(1.0, static_cast<double>(next.count) / static_cast<double>(next.of));
        chance *= share * agrees(match.length);
        if (!chooses() && chance < kLeastChance) break;
        chances_.push_back(chance);
        proposal_.push_back({.token = next.token, .parent = static_cast<int32_t>(depth) - 2});
        match = next.after;
    }
    if (chooses()) proposal_.resize(best_length());
}

/// The number of proposed tokens at which milliseconds per token are least.
size_t Suffix::best_length() const {
    size_t best = 0;
    double tokens = 1, least_ms = GammaController::kGain * verify_ms_[1];
    for (size_t n = 1; n <= chances_.size(); ++n) {
        tokens += chances_[n - 1];
        if (verify_ms_[n + 1] / tokens >= least_ms) continue;
        least_ms = verify_ms_[n + 1] / tokens;
        best = n;
    }
    return best;
}

void Suffix::set_costs(const LevelCosts& verifier) {
    verify_ms_.assign(1, 0);
    for (int64_t rows = 1; rows <= kMaxRows; ++rows) verify_ms_.push_back(verifier.ms(rows));
}

void Suffix::resolve(std::span<const int32_t> path, int32_t next) {
    for (const int32_t i : path) open_.push_back(proposal_[index(i)].token);
    if (next >= 0) open_.push_back(next);
    proposal_.clear();
}

void Suffix::rewind(int64_t n, int32_t next) {
    check(n >= 0 && std::ssize(open_) >= n, "suffix: {} tokens to forget of {}", n, open_.size());
    open_.resize(open_.size() - static_cast<size_t>(n));
    if (next >= 0) open_.push_back(next);
}

void Suffix::commit() {
    for (const int32_t token : open_) append(token);
    open_.clear();
}

/// Appends a final token.
void Suffix::append(int32_t token) {
    final_.push_back(token);
    output_.append(token);
    searched_[0].match = output_.repeated();
    for (size_t i = 1; i < searched_.size(); ++i) {
        if (searched_[i].text != nullptr) searched_[i].match = searched_[i].text->next(searched_[i].match, token);
    }
}

void Suffix::state(Archive& ar) {
    ar.section("suffixes");
    check(ar.loads() || open_.empty(), "suffix: {} tokens are not final", open_.size());
    std::vector<int32_t> prompt = prompt_tokens_, text = final_;
    ar.values(prompt);
    ar.values(text);
    if (!ar.loads()) return;
    prefill(prompt, {});
    for (const int32_t token : text) append(token);
}

}  // namespace trireme
