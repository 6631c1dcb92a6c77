#pragma once
/// The slots of single heads as the CPU's operations find them in memory (kernels/slots.h).

#include <cmath>
#include <cstring>

#include "kernels/cpu/ops.h"
#include "kernels/slots.h"
#include "runtime/error.h"

namespace trireme {

/// The slots of one head of one owner.
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

    size_t k_bytes() const { return static_cast<size_t>(layout.head_dim) * size_of(layout.k_type); }
    size_t v_bytes() const { return static_cast<size_t>(layout.head_dim) * size_of(layout.v_type); }
    char* key(int64_t slot) const { return tile(slot) + static_cast<size_t>(slot % kTileTokens) * k_bytes(); }
    char* value(int64_t slot) const {
        return tile(slot) + kTileTokens * k_bytes() + static_cast<size_t>(slot % kTileTokens) * v_bytes();
    }
    void put(int64_t slot, const char* k, const char* v) const {
        std::memcpy(key(slot), k, k_bytes());
        std::memcpy(value(slot), v, v_bytes());
    }

    const KvLayout& layout;
    int64_t head, slots;
    int32_t *tokens, *ranks;
    float* scores;
    int32_t &count, &budget;
    int64_t* tiles;
    const char *staged_k, *staged_v;  // of the first staged row

  private:
    template <class T>
    T* at(const Tensor& t, int64_t owner) const {
        return static_cast<T*>(t.data()) + (owner * layout.kv_heads + head) * slots;
    }
    const char* staged(const Tensor& t, DType type, int64_t owner) const {
        return static_cast<const char*>(t.data()) +
               static_cast<size_t>((owner * layout.kv_heads + head) * kMaxRows * layout.head_dim) * size_of(type);
    }
    char* tile(int64_t slot) const {
        return reinterpret_cast<char*>(static_cast<uintptr_t>(tiles[slot / kTileTokens]));
    }
};

/// What the memory says of a head fits what is known of it.
inline void check_tokens(const char* op, int64_t tokens, int64_t most) {
    check(tokens >= 0 && tokens <= most, "{}: a head has {} tokens where {} may be", op, tokens, most);
}

inline float element(DType type, const char* row, int64_t i) {
    if (type == DType::kF16) return static_cast<float>(reinterpret_cast<const f16*>(row)[i]);
    if (type == DType::kBF16) return static_cast<float>(reinterpret_cast<const bf16*>(row)[i]);
    return reinterpret_cast<const float*>(row)[i];
}

inline float square(DType type, const char* row, int64_t n) {
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum = std::fma(element(type, row, i), element(type, row, i), sum);
    return sum;
}

/// What a token is worth when it comes, before attention has seen it.
inline float first_score(const SlotRule& rule, const KvLayout& l, int64_t owner, int64_t head, int64_t token,
                         const char* key) {
    if (rule.by == ScoreBy::kKeyNorm) return -square(l.k_type, key, l.head_dim);
    if (rule.by == ScoreBy::kRandom) return random_score(rule, owner, head, token);
    return 0;
}

template <class Body>
void for_heads(int64_t heads, int64_t elements, const Body& body) {
    for_rows(heads, elements, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i);
    });
}

}  // namespace trireme
