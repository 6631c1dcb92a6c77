/// Sharing of a layer's slots among its heads, on the CPU (SlotShare).

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "kernels/cpu/head_slots.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// The n-th largest of the keys; n > 0.
uint64_t nth_largest(std::vector<uint64_t>& keys, int64_t n) {
    std::nth_element(keys.begin(), keys.begin() + (n - 1), keys.end(), std::greater<>());
    return keys[index(n - 1)];
}

/// Number of entries that each head retains.
std::vector<int64_t> share_out(const Tensor& keys, const Tensor& rows, const SlotShare& share, const SlotRule& rule,
                               const SlotCall& call) {
    const int64_t heads = rows.rows(), n = call.entries(), candidates = std::max<int64_t>(0, n - rule.recent);
    const auto row = [&](int64_t head) {
        const int64_t at = static_cast<const int32_t*>(rows.data())[head];
        check(at >= 0 && at < keys.rows(), "slot_share: the keys of head {} are in row {} of {}", head, at,
              keys.rows());
        return static_cast<uint64_t*>(keys.data()) + at * n;
    };
    std::vector<int64_t> stay(static_cast<size_t>(heads));
    int64_t all = 0;
    for (int64_t h = 0; h < heads; ++h) {
        const uint64_t* of_head = row(h);
        stay[index(h)] = n - std::count(of_head, of_head + n, uint64_t{0});
        all += stay[index(h)];
    }
    const int64_t room = share.tokens - call.reserve;
    if (all <= heads * room) return stay;

    int64_t left = heads * (room - rule.recent);
    std::vector<uint64_t> sorted;
    for (int64_t h = 0; h < heads; ++h) {  // clear what a head retains in any case, so that it is not selected again
        uint64_t* of_head = row(h);
        int64_t& kept = stay[index(h)];
        const int64_t least = std::min(share.least, std::max<int64_t>(0, kept - rule.recent));
        kept = std::min<int64_t>(kept, rule.recent) + least;
        left -= least;
        if (least == 0) continue;
        sorted.assign(of_head, of_head + candidates);
        const uint64_t last = nth_largest(sorted, least);
        std::replace_if(
            of_head, of_head + candidates, [&](uint64_t key) { return key >= last; }, uint64_t{0});
    }
    if (left <= 0) return stay;
    sorted.clear();
    for (int64_t h = 0; h < heads; ++h) sorted.insert(sorted.end(), row(h), row(h) + candidates);
    const uint64_t last = nth_largest(sorted, left);
    const auto count = [&](int64_t h, auto fits) {
        const auto some = std::count_if(row(h), row(h) + candidates, fits);
        stay[index(h)] += some;
        left -= some;
    };
    for (int64_t h = 0; h < heads; ++h) count(h, [&](uint64_t key) { return key > last; });
    for (int64_t h = 0; h < heads && left > 0; ++h) count(h, [&](uint64_t key) { return key == last; });
    return stay;
}

}  // namespace

void slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores, const SlotRule& rule,
               const SlotCall& call) {
    const int64_t n = call.entries(), tokens = call.first_token + call.fresh;
    for_heads(kv.layout.kv_heads, n * 4, [&](int64_t head) {
        const HeadSlots h(kv, call.owner, head);
        check_tokens("slot_keys", h.count, std::min(call.cached, h.slots));
        const auto* by_rank = static_cast<const int32_t*>(order.data()) + head * kv.slots();
        const float* score = static_cast<const float*>(scores.data()) + head * n;
        uint64_t* to = static_cast<uint64_t*>(keys.data()) + head * n;
        const int64_t begin = call.cached - h.count;
        std::fill_n(to, begin, uint64_t{0});
        for (int64_t e = begin; e < n; ++e) {
            const int64_t token =
                e < call.cached ? int64_t{h.tokens[by_rank[e - begin]]} : call.first_token + e - call.cached;
            to[e] = worth(rule, score[e], token, tokens);
        }
    });
}

void slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows, const Tensor& largest,
                const SlotShare& share, const SlotRule& rule, const SlotCall& call) {
    const std::vector<int64_t> stay = share_out(keys, rows, share, rule, call);
    const auto heads = static_cast<int64_t>(stay.size()), most_tiles = kv.tiles.dim(2);
    int64_t all = 0, most = 0, next = 0;
    for (const int64_t s : stay) all += s;
    for (const int64_t s : stay) most = std::max(most, shared_budget(share, heads, s, all));
    static_cast<int32_t*>(largest.data())[call.owner] = static_cast<int32_t>(most);
    for (int64_t head = 0; head < kv.layout.kv_heads; ++head) {
        HeadSlots h(kv, call.owner, head);
        const int64_t budget = shared_budget(share, heads, stay[index(rule.first_head + head)], all);
        check_tokens("slot_share", budget, h.slots);
        h.budget = static_cast<int32_t>(budget);
        const int64_t used = tiles_for(budget);
        check(next + used <= tiles.rows(), "slot_share: heads want {} tiles of {}", next + used, tiles.rows());
        for (int64_t t = 0; t < most_tiles; ++t) {
            h.tiles[t] =
                t < used ? reinterpret_cast<int64_t>(static_cast<char*>(tiles.data()) + (next + t) * tiles.cols()) : 0;
        }
        next += used;
    }
}

}  // namespace trireme
