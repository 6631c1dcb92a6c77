#include "kernels/cpu/row_law.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "kernels/cpu/row_top.h"
#include "runtime/error.h"

namespace trireme {

OrderedRow::OrderedRow(const LogitsRow& row, int64_t vocab, const SamplingRule& rule, int64_t draws, void* scratch)
    : keys_(static_cast<uint64_t*>(scratch)), weights_(keys_ + vocab) {
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    float top = kNone;
    int64_t best = 0;
    bool nan = false;
    for (int64_t first = 0; first < vocab; first += row.cols) {
        const float* x = row.data + first / row.cols * row.stride;
        const int64_t end = std::min(row.cols, vocab - first);
        if (end <= 0) break;
        const RowTop part = row_top(x, end);
        nan |= part.nan;
        if (part.top > top) top = part.top, best = first + part.at;
        for (int64_t c = 0; c < end && (rule.scale != 0 || draws > 1); ++c) {
            if (x[c] > kNone) keys_[size_++] = order_key(x[c], first + c);
        }
    }
    require(!nan && std::isfinite(top), Exit::kData, "{}", kNoLaw);
    law_ = {.least = rule.min_weight, .top = top, .scale = rule.scale};
    if (rule.scale == 0) {
        law_.floor = order_key(top, best);
        law_.sum = weight_of(top, top, 0.0F);
        if (draws > 1) {
            order(static_cast<size_t>(draws));
            size_ = ordered_;
        } else {
            keys_[0] = law_.floor;
            size_ = 1;
        }
        return;
    }
    if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < size_) {
        std::nth_element(keys_, keys_ + rule.top_k, keys_ + size_, std::greater<>());
        size_ = static_cast<size_t>(rule.top_k);
    }
    if (rule.top_p < SamplingRule::kOne) size_ = head(part_of(total(), rule.top_p, /*up=*/true));
    if (rule.min_weight > 0) {
        // Weights fall: what min-p leaves is a head, of the first token at least.
        const auto light = [&](uint64_t key) {
            return weight_of(logit_of_key(key), top, rule.scale) < rule.min_weight;
        };
        size_ = static_cast<size_t>(std::partition(keys_, keys_ + size_, std::not_fn(light)) - keys_);
        ordered_ = 0;
    }
    law_.floor = *std::min_element(keys_, keys_ + size_);
    law_.sum = left_ = total();
}

uint64_t OrderedRow::total() const {
    uint64_t sum = 0;
    for (size_t i = 0; i < size_; ++i) sum += weight_of(logit_of_key(keys_[i]), law_.top, law_.scale);
    return sum;
}

void OrderedRow::order(size_t n) {
    n = std::min(n, size_);
    if (n < size_) std::nth_element(keys_ + ordered_, keys_ + n, keys_ + size_, std::greater<>());
    std::sort(keys_ + ordered_, keys_ + n, std::greater<>());
    for (size_t i = ordered_; law_.scale != 0 && i < n; ++i) {
        weights_[i] = weight_of(logit_of_key(keys_[i]), law_.top, law_.scale);
    }
    ordered_ = n;
}

size_t OrderedRow::head(uint64_t least) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size_; ++i) {
        if (i == ordered_) order(std::max<size_t>(64, 4 * ordered_));
        sum += weights_[i];
        if (sum >= least) return i + 1;
    }
    return size_;
}

int32_t OrderedRow::draw(uint64_t u) {
    size_t at = taken_;
    if (law_.scale == 0) {
        if (at == size_) return -1;
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
