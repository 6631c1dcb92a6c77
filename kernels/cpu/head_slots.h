#pragma once
/// HeadSlots: addresses of one head's slots, for the CPU's operations (kernels/slots.h).

#include <cmath>
#include <cstring>

#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/ops.h"
#include "kernels/key_order.h"
#include "kernels/slots.h"
#include "runtime/error.h"

namespace trireme {

/// Slots of KV head `number` of an owner. count and budget refer to the SlotKv's memory.
struct HeadSlots {
    HeadSlots(const SlotKv& kv, int64_t owner, int64_t number)
        : layout(kv.layout),
          head(number),
          slots(kv.slots()),
          tokens(at<int32_t>(kv.tokens, owner)),
          ranks(at<int32_t>(kv.ranks, owner)),
          scores(at<float>(kv.scores, owner)),
          count(*(static_cast<int32_t*>(kv.counts.data()) + owner * kv.layout.kv_heads + head)),
          budget(*(static_cast<int32_t*>(kv.budgets.data()) + owner * kv.layout.kv_heads + head)),
          tiles(static_cast<int64_t*>(kv.tiles.data()) + (owner * kv.layout.kv_heads + head) * kv.tiles.dim(2)),
          staged_k(staged(kv.staged_k, layout.k_type, owner)),
          staged_v(staged(kv.staged_v, layout.v_type, owner)) {}

    size_t v_bytes() const { return row_bytes(layout.v_type, layout.head_dim); }
    /// Keys of the tile that has the slot.
    KeyBlocks keys(int64_t slot) const { return {tile(slot), layout.k_type, layout.head_dim}; }
    char* value(int64_t slot) const {
        const size_t all_keys = kTileTokens * row_bytes(layout.k_type, layout.head_dim);
        return tile(slot) + all_keys + static_cast<size_t>(slot % kTileTokens) * v_bytes();
    }
    /// Writes key i of `from` and a value to a slot.
    void put(int64_t slot, const KeyBlocks& from, int64_t i, const char* v) const {
        keys(slot).copy(slot % kTileTokens, from, i, 1);
        std::memcpy(value(slot), v, v_bytes());
    }
    /// Writes a key and a value, both rows, to a slot.
    void put_rows(int64_t slot, const char* k, const char* v) const {
        keys(slot).put(slot % kTileTokens, k);
        std::memcpy(value(slot), v, v_bytes());
    }

    const KvLayout& layout;
    int64_t head, slots;
    int32_t *tokens, *ranks;
    float* scores;
    int32_t &count, &budget;
    int64_t* tiles;
    const char *staged_k, *staged_v;  // the first staged row

  private:
    template <class T>
    T* at(const Tensor& t, int64_t owner) const {
        return static_cast<T*>(t.data()) + (owner * layout.kv_heads + head) * slots;
    }
    const char* staged(const Tensor& t, DType type, int64_t owner) const {
        return static_cast<const char*>(t.data()) +
               static_cast<size_t>((owner * layout.kv_heads + head) * kMaxRows) * row_bytes(type, layout.head_dim);
    }
    char* tile(int64_t slot) const {
        return reinterpret_cast<char*>(static_cast<uintptr_t>(tiles[slot / kTileTokens]));
    }
};

/// Checks a number of tokens that was read from device memory.
inline void check_tokens(const char* op, int64_t tokens, int64_t most) {
    check(tokens >= 0 && tokens <= most, "{}: a head has {} tokens where {} may be", op, tokens, most);
}

/// first_score() of slot_rule.h. key(piece, first, n) copies elements of its key.
template <class Key>
float first_score(const SlotRule& rule, const KvLayout& l, int64_t owner, int64_t head, int64_t token, const Key& key) {
    if (rule.by != ScoreBy::kKeyNorm) return first_score(rule, owner, head, token, 0);
    constexpr int64_t kPiece = 64;
    static_assert(kPiece % kQuantBlock == 0, "KeyBlocks moves pairs of bf16, and whole blocks of q8_0");
    alignas(64) char piece[kPiece * sizeof(float)];
    float sum = 0;
    for (int64_t first = 0; first < l.head_dim; first += kPiece) {
        const int64_t n = std::min(kPiece, l.head_dim - first);
        key(piece, first, n);
        for (int64_t i = 0; i < n; ++i) {
            const float x = element(l.k_type, piece, n, i);
            sum = std::fma(x, x, sum);
        }
    }
    return first_score(rule, owner, head, token, sum);
}

/// Calls body(head) for all heads, on several threads if their `elements` are worth it (for_rows).
template <class Body>
void for_heads(int64_t heads, int64_t elements, const Body& body) {
    for_rows(heads, elements, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i);
    });
}

}  // namespace trireme
