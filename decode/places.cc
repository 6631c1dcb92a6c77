#include "decode/places.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/error.h"
#include "runtime/random.h"

namespace trireme {

Places::Places(Level& model, int64_t n, Ended ended)
    : model_(model), ended_(std::move(ended)), places_(static_cast<size_t>(n)) {
    check(n <= model.view().shape().sequences, "{} texts side by side on {} sequences", n,
          model.view().shape().sequences);
}

std::optional<int> Places::vacant() const {
    const auto found = std::ranges::find(places_, -1, &Place::id);
    if (found == places_.end()) return std::nullopt;
    return static_cast<int>(found - places_.begin());
}

bool Places::empty() const {
    return std::ranges::all_of(places_, [](const Place& p) { return p.id < 0; });
}

void Places::begin(int place, int64_t id, const Draws& draws, std::unique_ptr<ContinuationBuilder> text,
                   int32_t first) {
    Place& p = places_[static_cast<size_t>(place)];
    check(p.id < 0 && id >= 0, "place {} has text {}, and is to have {}", place, p.id, id);
    p = {.id = id, .draws = draws, .text = std::move(text), .last = first, .round = 1};
    if (!p.text->done()) p.text->take(first);
    if (p.text->done()) end(p);
}

void Places::step(std::vector<int32_t>& round) {
    round.clear();
    for (size_t begin = 0; begin < places_.size();) {
        rows_.clear();
        computed_.clear();
        for (; begin < places_.size() && static_cast<int64_t>(rows_.size()) < kMaxRows; ++begin) {
            Place& p = places_[begin];
            if (p.id < 0) continue;
            const auto sequence = static_cast<int32_t>(begin);
            const auto at = static_cast<int32_t>(model_.length(sequence));
            rows_.push_back({.token = p.last, .position = at, .parent = -1, .sequence = sequence});
            computed_.push_back(&p);
        }
        if (!rows_.empty()) forward(round);
    }
}

void Places::forward(std::vector<int32_t>& round) {
    model_.forward(rows_);
    draw();
    const int64_t common = model_.view().shape().common;
    read_bytes_ += model_.weights().bytes_per_step() + model_.read_bytes(common);
    for (size_t r = 0; r < rows_.size(); ++r) {
        const std::array<int32_t, 1> kept = {static_cast<int32_t>(r)};
        model_.keep(rows_[r].sequence, kept);
        read_bytes_ += model_.read_bytes(rows_[r].position + 1) - model_.read_bytes(common);
    }
    ++forwards_;
    tokens_ += static_cast<int64_t>(rows_.size());
    for (size_t r = 0; r < computed_.size(); ++r) {
        Place& p = *computed_[r];
        p.last = drawn_[r];
        round.push_back(p.last);
        p.text->take(p.last);
        if (p.text->done()) end(p);
    }
}

/// Draws a token for every row with the parameters of its sequence. They are nearly always equal. Where they differ,
/// each set of parameters samples all rows, and only its own rows use the result.
void Places::draw() {
    uniforms_.clear();
    for (Place* p : computed_) {
        uniforms_.push_back(uniform(p->draws.seed, {.sample = p->draws.sample, .round = p->round++}));
    }
    drawn_.assign(rows_.size(), -1);
    for (size_t r = 0; r < rows_.size(); ++r) {
        if (drawn_[r] >= 0) continue;
        const SamplingParams& sampling = computed_[r]->draws.sampling;
        const std::span<const int32_t> all = model_.sample(sampling, uniforms_);
        for (size_t other = r; other < rows_.size(); ++other) {
            if (computed_[other]->draws.sampling == sampling) drawn_[other] = all[other];
        }
    }
}

void Places::end(Place& place) {
    const int64_t id = std::exchange(place.id, -1);
    ended_(id, place.text->finish());
}

void Places::stop() {
    for (Place& p : places_) {
        if (p.id < 0) continue;
        p.text->stop(StopReason::kInterrupted);
        end(p);
    }
}

}  // namespace trireme
