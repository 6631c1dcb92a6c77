/// KeyDiff's scores, block by block of 16 keys: lanes are keys, so each key's sums go in the order of its elements.

#include "kernels/cpu/key_diff.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/head_slots.h"
#include "kernels/key_order.h"
#include "runtime/error.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/key_diff.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/quantised-inl.h"
#include "runtime/index.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// A block of keys as f32, element by element: [dim, kKeyBlock].
struct WideBlock {
    alignas(64) float x[kMostKeyElements * kKeyBlock];

    void load(const char* block, DType type, int64_t dim) {
        const F d;
        const int64_t n = dim * kKeyBlock;
        if (type == DType::kBF16) {  // pairs of elements
            const hn::Rebind<uint32_t, F> u;
            const auto* pairs = reinterpret_cast<const uint32_t*>(block);
            for (int64_t i = 0; i < n / 2; i += kLanes) {
                const int64_t to = i / kKeyBlock * 2 * kKeyBlock + i % kKeyBlock;
                const auto both = hn::LoadU(u, pairs + i);
                hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(both)), d, x + to);
                hn::StoreU(hn::BitCast(d, hn::And(both, hn::Set(u, 0xffff0000u))), d, x + to + kKeyBlock);
            }
        } else if (type == DType::kQ8_0) {
            widen_block(reinterpret_cast<const q8_0*>(block), dim, x);
        } else if (type == DType::kF16) {
            for (int64_t i = 0; i < n; i += kLanes) {
                hn::StoreU(HWY_NAMESPACE::load(d, reinterpret_cast<const f16*>(block) + i), d, x + i);
            }
        } else {
            std::copy_n(reinterpret_cast<const float*>(block), n, x);
        }
    }
    /// A single key, a row, as the first of a block.
    void load_row(const char* row, DType type, int64_t dim) {
        for (int64_t e = 0; e < dim; ++e) x[e * kKeyBlock] = element(type, row, dim, e);
    }
    /// sums[k] = the product of key k with `with`, or with itself.
    void products(int64_t dim, const float* with, float* sums) const {
        const F d;
        for (int64_t k = 0; k < kKeyBlock; k += kLanes) {
            Vf sum = hn::Zero(d);
            for (int64_t e = 0; e < dim; ++e) {
                const Vf key = hn::Load(d, x + e * kKeyBlock + k);
                sum = hn::MulAdd(key, with == nullptr ? key : hn::Set(d, with[e]), sum);
            }
            hn::StoreU(sum, d, sums + k);
        }
    }
};

float key_differences(const HeadKeys& keys, int64_t begin, int64_t end, const char* staged, float* scores) {
    WideBlock block;
    std::array<float, kMostKeyElements> mean = {};
    std::array<float, kKeyBlock> sums = {};
    const int64_t dim = keys.dim, bytes = kKeyBlock * static_cast<int64_t>(row_bytes(keys.type, dim));
    const auto each_block = [&](const auto& visit) HWY_ATTR {
        for (int64_t b = begin / kKeyBlock * kKeyBlock; b < end; b += kKeyBlock) {
            block.load(reinterpret_cast<const char*>(keys.tiles[b / kTileTokens]) + keys.offset +
                           b % kTileTokens / kKeyBlock * bytes,
                       keys.type, dim);
            visit(b, std::max(begin - b, int64_t{0}), std::min(end - b, kKeyBlock));
        }
    };
    const auto add = [&](int64_t k, float unit) HWY_ATTR {
        for (int64_t e = 0; e < dim; ++e) {
            float& sum = mean[index(e)];
            sum = std::fma(block.x[e * kKeyBlock + k], unit, sum);
        }
    };
    const auto length = [&](int64_t k) { return std::sqrt(sums[index(k)]); };
    each_block([&](int64_t b, int64_t first, int64_t last) HWY_ATTR {
        block.products(dim, nullptr, sums.data());
        for (int64_t k = first; k < last; ++k) add(k, scores[b + k] = unit_factor(length(k)));
    });
    float fresh = 0;
    if (staged != nullptr) {
        block.load_row(staged, keys.type, dim);
        block.products(dim, nullptr, sums.data());
        add(0, fresh = unit_factor(length(0)));
    }
    float square = 0;
    for (int64_t e = 0; e < dim; ++e) square = std::fma(mean[index(e)], mean[index(e)], square);
    const float of_mean = unit_factor(std::sqrt(square));
    if (staged != nullptr) {  // the block still holds it
        block.products(dim, mean.data(), sums.data());
        fresh = difference_score(sums[0], fresh, of_mean);
    }
    each_block([&](int64_t b, int64_t first, int64_t last) HWY_ATTR {
        block.products(dim, mean.data(), sums.data());
        for (int64_t k = first; k < last; ++k) {
            scores[b + k] = difference_score(sums[index(k)], scores[b + k], of_mean);
        }
    });
    return fresh;
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(key_differences);

float key_differences(const HeadKeys& keys, int64_t begin, int64_t end, const char* staged, float* scores) {
    check(keys.dim <= kMostKeyElements, "keydiff: keys of {} elements, at most {} are compared", keys.dim,
          kMostKeyElements);
    return HWY_DYNAMIC_DISPATCH(key_differences)(keys, begin, end, staged, scores);
}

}  // namespace trireme
#endif  // HWY_ONCE
