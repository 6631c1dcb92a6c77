#include "kernels/cpu/row_distribution.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/cpu/row_scan.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr float kFirstDepth = 2;  // the first scan finds tokens with at least a quarter of the largest weight
constexpr size_t kFirstOrdered = 64;

}  // namespace

template <class Visit>
void OrderedRow::parts(const Visit& visit) const {
    for (int64_t first = 0; first < vocab_; first += row_.cols) {
        visit(row_.data + first / row_.cols * row_.stride, std::min(row_.cols, vocab_ - first), first);
    }
}

OrderedRow::OrderedRow(const LogitsRow& row, int64_t vocab, const SamplingRule& rule, int64_t draws, void* scratch)
    : row_(row), vocab_(vocab), keys_(static_cast<uint64_t*>(scratch)), weights_(keys_ + vocab) {
    float top = -std::numeric_limits<float>::infinity();
    int64_t best = 0;
    bool nan = false;
    parts([&](const float* x, int64_t n, int64_t first) {
        const RowTop part = row_top(x, n);
        nan |= part.nan;
        if (part.top > top) top = part.top, best = first + part.at;
    });
    require(!nan && std::isfinite(top), Exit::kData, "{}", kNoDistribution);
    distribution_ = {.floor = kLowestKey, .least = rule.min_weight, .top = top, .scale = rule.scale};
    if (rule.scale != 0) {
        apply_filters(rule);
        return;
    }
    distribution_.floor = order_key(top, best);
    distribution_.sum = weight_of(top, top, 0.0F);
    if (draws > 1) {
        order(static_cast<size_t>(draws));
        kept_ = ordered_;
    } else {
        keys_[0] = distribution_.floor;
        kept_ = 1;
    }
}

void OrderedRow::apply_filters(const SamplingRule& rule) {
    if (rule.top_k > 0 && rule.top_k < vocab_) {
        order(static_cast<size_t>(rule.top_k));
        keep(ordered_);
    } else if (rule.top_p < SamplingRule::kOne || rule.min_weight == 0) {
        parts([&](const float* x, int64_t n, int64_t) {
            distribution_.sum += row_weight(x, n, distribution_.top, distribution_.scale);
        });
    }
    if (rule.top_p < SamplingRule::kOne) keep(head(part_of(distribution_.sum, rule.top_p, /*up=*/true)));
    if (rule.min_weight > 0) {
        // Weights fall: min-p keeps a prefix, which has at least the first token.
        size_t n = 0;
        while (reach(n) && weights_[n] >= rule.min_weight) ++n;
        keep(n);
    }
    left_ = distribution_.sum;
}

void OrderedRow::keep(size_t n) {
    kept_ = n;
    distribution_.floor = keys_[n - 1];
    distribution_.sum = 0;
    for (size_t i = 0; i < n; ++i) distribution_.sum += weights_[i];
}

bool OrderedRow::find() {
    constexpr float kLast = std::numeric_limits<float>::lowest();
    if (from_ == kLast) return false;
    depth_ = std::max(kFirstDepth, 2 * depth_);
    // Deeper than -kLeastPower all weights are 0: the rest is found at once. It is also found at once if depth_ / scale
    // is infinite (scale 0, or tiny).
    const float next =
        depth_ > -kLeastPower ? kLast : std::max(kLast, distribution_.top - depth_ / distribution_.scale);
    parts([&](const float* x, int64_t n, int64_t first) {
        found_ += static_cast<size_t>(row_keys(x, n, first, next, from_, keys_ + found_));
    });
    from_ = next;
    return true;
}

void OrderedRow::order(size_t n) {
    while (found_ < n && find()) continue;
    n = std::min(n, found_);
    if (n <= ordered_) return;
    // Tokens found earlier come before those found later; among the latter, sorted ones come before the others.
    if (n < found_) std::nth_element(keys_ + ordered_, keys_ + n, keys_ + found_, std::greater<>());
    std::sort(keys_ + ordered_, keys_ + n, std::greater<>());
    for (size_t i = ordered_; distribution_.scale != 0 && i < n; ++i) {
        weights_[i] = weight_of(logit_of_key(keys_[i]), distribution_.top, distribution_.scale);
    }
    ordered_ = n;
}

bool OrderedRow::reach(size_t i) {
    check(i <= ordered_, "sample: token {} is requested, {} are in order", i, ordered_);
    if (i >= kept_) return false;
    if (i < ordered_) return true;
    while (found_ == ordered_) {
        if (!find()) return false;
    }
    order(std::min(found_, std::max(kFirstOrdered, 4 * ordered_)));
    return true;
}

size_t OrderedRow::head(uint64_t least) {
    uint64_t sum = 0;
    size_t n = 0;
    while (reach(n)) {
        sum += weights_[n++];
        if (sum >= least) break;
    }
    return n;
}

int32_t OrderedRow::draw(uint64_t u) {
    size_t at = taken_;
    if (distribution_.scale == 0) {
        if (at == kept_) return -1;
        ++taken_;
    } else {
        if (left_ == 0) return -1;
        at = head(part_of(left_, u, /*up=*/false) + 1) - 1;
        left_ -= weights_[at];
        weights_[at] = 0;
    }
    return static_cast<int32_t>(~static_cast<uint32_t>(keys_[at]));
}

}  // namespace trireme
