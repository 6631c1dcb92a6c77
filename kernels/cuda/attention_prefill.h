#pragma once
/// Causal attention of a prefill batch over KV of 16 or 8 bits, on tensor cores. A block has 64 query vectors of one KV
/// head. It walks the keys in order, 64 at a time, with a running maximum. Queries and probabilities are rounded to
/// KV's type; with q8_0 all are f16.

#include <type_traits>

#include "kernels/cuda/attention_rows.h"
#include "kernels/cuda/rotate.h"

namespace trireme::gpu {

/// Grid: blocks of kVectors query vectors, run after run of heads that share a KV head; surplus blocks exit at once.
/// All threads load keys and values into shared memory. Each of four warps owns 16 query vectors, an mma's rows: their
/// softmax and results remain in its registers. Vector v is head `head + v % heads` of row v / heads.
///
/// Fragments are as in the PTX ISA: lane 4 * group + quad holds rows group and group + 8 of its warp's tiles. kRotates:
/// keys are rotated by their slots as they are read. Stored: the type of KV, if it is not T: rounded to T as it is
/// read.
template <class T, int kDim, bool kRotates = false, class Stored = T>
struct AttendPrefill {
    static constexpr int kThreads = 128, kVectors = 64, kKeys = 64;
    static constexpr int kBlocksOfSm = kDim == 128 ? 2 : kRotates ? 3 : 4;
    static constexpr int kAhead = 2;  // pieces of K and of V that a thread has in flight at once
    static constexpr int kKeyStride = kDim + 8, kValueStride = kKeys + 8;  // 16-bit words; no two lanes share a bank
    static constexpr int64_t kSharedBytes = int64_t{kKeys * kKeyStride + kDim * kValueStride} * 2;
    static_assert(kKeys * (kDim / 8) % (kAhead * kThreads) == 0, "a thread loads kAhead pieces in every step");
    static_assert(kVectors == kThreads / kWarp * 16, "a warp has the 16 rows of an mma");
    static_assert(kDim % 16 == 0 && kKeys % 16 == 0, "an mma multiplies over 16 elements, or over 16 keys");
    static_assert(kTile % kKeys == 0, "keys that are loaded together are in one tile");
    static_assert(8 * sizeof(T) == sizeof(Bits16) && kKeyStride % 8 == 0, "keys are stored 16 bytes at a time");
    static_assert(kKeyStride % 16 == 8 && kValueStride % 16 == 8, "rows begin 4 banks apart, or an odd multiple of 4");
    static_assert(kSharedBytes <= 48 << 10, "more must be requested at each launch (launch.cuh)");
    struct Args {
        Kv kv;
        Seen seen;
        Rows<const float> q;
        Rows<float> out;
        const int32_t* kv_of_head;
        int64_t heads, max_slots;
        float scale;  // of scores, log2(e) included
        Angles angles = {};
        Rows<float> totals = {};  // [row][head]: maximum and sum (AttentionReport); may be none
    };

    /// Blocks that suffice for `heads` in at most `runs` runs, whose last blocks may be nearly empty.
    static int64_t blocks(int64_t rows, int64_t heads, int64_t runs) {
        return (rows * heads + runs * (kVectors - 1)) / kVectors;
    }

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const Place at = place(gpu.block_x(), a);
        if (at.heads == 0) return;
        const int64_t head = at.head, heads = at.heads, first = at.first;
        const int64_t kv_head = a.kv_of_head[head], vectors = a.seen.rows * heads;
        if (!validate(gpu, a, static_cast<int>(a.seen.begin(kv_head)))) return;
        const auto begin = static_cast<int>(a.seen.begin(kv_head, first / heads));  // later rows' windows begin later

        const int lane = gpu.thread() % kWarp, group = lane / 4, quad = lane % 4;
        const int64_t mine = first + gpu.thread() / kWarp * 16 + group;
        const Vector vector[2] = {locate(a, head, heads, mine, vectors), locate(a, head, heads, mine + 8, vectors)};
        uint32_t query[kDim / 16][4];
        load_queries(a, vector, quad, query);

        auto* keys = static_cast<uint16_t*>(gpu.shared());  // [key][kKeyStride]
        uint16_t* values = keys + kKeys * kKeyStride;       // [element][kValueStride]
        State s;
        const int last = a.seen.slots[min_of(first + kVectors - 1, vectors - 1) / heads];
        for (int slot = begin / kKeys * kKeys; slot <= last; slot += kKeys) {
            gpu.sync();  // the keys and values before have been used
            load_block(gpu, a, kv_head, slot, begin, last, keys, values);
            gpu.sync();
            attend(gpu, vector, slot, query, keys, values, s);
        }
        store(gpu, a, vector, quad, s);
    }

  private:
    /// A block's run of heads and its first query vector there.
    struct Place {
        int64_t head, heads, first;
    };
    TRIREME_GPU static Place place(int64_t block, const Args& a) {
        for (int64_t head = 0; head < a.heads;) {
            const int64_t heads = run_at(a.kv_of_head, head, a.heads), blocks = div_up(a.seen.rows * heads, kVectors);
            if (block < blocks) return {head, heads, block * kVectors};
            block -= blocks;
            head += heads;
        }
        return {0, 0, 0};
    }

    /// A query vector: where it is read and written, and the slots that it sees; row -1: the padding at the end.
    struct Vector {
        int row, head, begin, slot;
    };
    /// Running softmax of rows group and group + 8.
    struct State {
        float max[2] = {-infinity(), -infinity()};
        float sum[2] = {0, 0};  // this lane's share
        float acc[kDim / 8][4] = {};
    };

    TRIREME_GPU static Vector locate(const Args& a, int64_t head, int64_t heads, int64_t v, int64_t vectors) {
        if (v >= vectors) return {-1, 0, 0, -1};
        const int64_t row = v / heads;
        return {static_cast<int>(row), static_cast<int>(head + v % heads),
                static_cast<int>(a.seen.begin(a.kv_of_head[head], row)), a.seen.slots[row]};
    }

    /// Checks that rows are consecutive and see the slot `begin`, and that their tokens have tiles. All threads of the
    /// block return the same answer.
    template <class Gpu>
    TRIREME_GPU static bool validate(Gpu& gpu, const Args& a, int begin) {
        bool good = true;
        for (int64_t r = gpu.thread(); r < a.seen.rows; r += kThreads) {
            const int64_t p = a.seen.slots[r];
            if (p != a.seen.slots[0] + r || p < -1 || p >= a.max_slots) {
                gpu.fault(Fault::kRowOrder, p, a.seen.slots[0] + r);
                good = false;
            } else if (begin != 0 && (begin < 0 || begin > p + 1)) {
                gpu.fault(Fault::kBegin, p, begin);
                good = false;
            } else if (kRotates && p >= a.angles.positions) {
                gpu.fault(Fault::kPosition, p, a.angles.positions);
                good = false;
            } else if (p >= 0 && a.kv.tile(a.seen.sequences[r], p / kTile) == nullptr) {
                gpu.fault(Fault::kTile, p, a.seen.sequences[r]);
                good = false;
            }
        }
        const int64_t before = div_up(max_of(a.seen.slots[0], 0), kTile);
        for (int64_t t = gpu.thread(); t < before && good; t += kThreads) {
            if (a.kv.tile(a.seen.sequences[0], t) != nullptr) continue;
            gpu.fault(Fault::kTile, t * kTile, a.seen.sequences[0]);
            good = false;
        }
        return block_sum<kThreads>(gpu, good ? 0.0f : 1.0f) == 0;
    }

    TRIREME_GPU static void load_queries(const Args& a, const Vector (&vector)[2], int quad,
                                         uint32_t (&query)[kDim / 16][4]) {
        for (int step = 0; step < kDim / 16; ++step) {
            for (int i = 0; i < 4; ++i) {
                const Vector& v = vector[i % 2];
                const int64_t at = step * 16 + quad * 2 + i / 2 * 8;
                float x[2] = {0, 0};
                if (v.row >= 0 && at < a.kv.dim) {
                    const float* from = a.q(v.row) + v.head * a.kv.dim + at;
                    x[0] = from[0] * a.scale;
                    x[1] = from[1] * a.scale;
                }
                query[step][i] = pack<T>(x[0], x[1]);
            }
        }
    }

    /// Elements [8 * piece, 8 * piece + 8) of a row, as T.
    template <class Gpu>
    TRIREME_GPU static Bits16 load_piece(Gpu& gpu, const char* row, int64_t dim, int piece) {
        if constexpr (std::is_same_v<T, Stored>) {
            return gpu.load16(reinterpret_cast<const Bits16*>(row) + piece);
        } else {
            Vec8<Stored> stored;
            stored.load(gpu, row, static_cast<int>(dim), piece * 8, DType::kQ8_0);
            float x[8];
            stored.widen_to(x, DType::kQ8_0);
            return packed(x);
        }
    }
    TRIREME_GPU static Bits16 packed(float (&x)[8]) {
        Bits16 bits;
        for (float& e : x) e = std::is_same_v<T, f16> ? within_f16(e) : e;
        for (int i = 0; i < 4; ++i) bits.word[i] = pack<T>(x[2 * i], x[2 * i + 1]);
        return bits;
    }

    /// Loads keys and values of slots [slot, slot + kKeys) into shared memory, keys rotated, values transposed; zeros
    /// outside [begin, last] and beyond head_dim.
    template <class Gpu>
    TRIREME_GPU static void load_block(Gpu& gpu, const Args& a, int64_t kv_head, int slot, int begin, int last,
                                       uint16_t* keys, uint16_t* values) {
        char* tile = a.kv.tile(a.seen.sequences[0], slot / kTile);
        for (int first = gpu.thread(); first < kKeys * (kDim / 8); first += kAhead * kThreads) {
            Bits16 k[kAhead] = {}, v[kAhead] = {};
            TRIREME_UNROLL
            for (int n = 0; n < kAhead; ++n) {
                const int key = (first + n * kThreads) % kKeys, piece = (first + n * kThreads) / kKeys;
                const int64_t place = (slot + key) % kTile;
                if (slot + key < begin || slot + key > last || piece * 8 >= a.kv.dim) continue;
                k[n] = load_piece(gpu, a.kv.key(tile, kv_head, place), a.kv.dim, piece);
                v[n] = load_piece(gpu, a.kv.value(tile, kv_head, place), a.kv.dim, piece);
            }
            TRIREME_UNROLL
            for (int n = 0; n < kAhead; ++n) {
                const int key = (first + n * kThreads) % kKeys, piece = (first + n * kThreads) / kKeys;
                const bool seen = slot + key >= begin && slot + key <= last && piece * 8 < a.kv.dim;
                if (kRotates && seen) {
                    rotate(gpu, a, a.kv.key(tile, kv_head, (slot + key) % kTile), slot + key, piece * 8, k[n]);
                }
                *reinterpret_cast<Bits16*>(keys + key * kKeyStride + piece * 8) = k[n];
                for (int e = 0; e < 8; ++e) {
                    values[(piece * 8 + e) * kValueStride + key] =
                        static_cast<uint16_t>(v[n].word[e / 2] >> (16 * (e % 2)));
                }
            }
        }
    }

    /// Rotates eight elements of the key in a slot, from `first` on, and rounds them again.
    template <class Gpu>
    TRIREME_GPU static void rotate(Gpu& gpu, const Args& a, const char* key, int slot, int first, Bits16& bits) {
        float x[8];
        Vec8<T>{bits}.widen_to(x, a.kv.k_type);
        rotate_eight<T>(gpu, key, a.angles.table(slot), first, static_cast<int>(a.kv.dim), a.kv.k_type, x);
        bits = packed(x);
    }

    TRIREME_GPU static uint32_t word(const uint16_t* at) { return *reinterpret_cast<const uint32_t*>(at); }

    /// Attends kKeys keys, from `slot` on.
    template <class Gpu>
    TRIREME_GPU static void attend(Gpu& gpu, const Vector (&vector)[2], int slot, const uint32_t (&query)[kDim / 16][4],
                                   const uint16_t* keys, const uint16_t* values, State& s) {
        const int lane = gpu.thread() % kWarp, group = lane / 4, quad = lane % 4;
        float score[kKeys / 8][4] = {};
        float top[2] = {s.max[0], s.max[1]};
        TRIREME_UNROLL
        for (int t = 0; t < kKeys / 8; ++t) {
            const uint16_t* key = keys + (t * 8 + group) * kKeyStride + quad * 2;
            TRIREME_UNROLL
            for (int step = 0; step < kDim / 16; ++step) {
                const uint32_t right[2] = {word(key + step * 16), word(key + step * 16 + 8)};
                gpu.template mma<T>(score[t], query[step], right);
            }
            TRIREME_UNROLL
            for (int i = 0; i < 4; ++i) {
                const int at = slot + t * 8 + quad * 2 + i % 2;
                if (at > vector[i / 2].slot || at < vector[i / 2].begin) score[t][i] = -infinity();
                top[i / 2] = fmaxf(top[i / 2], score[t][i]);
            }
        }
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            top[r] = fmaxf(top[r], gpu.shuffle_xor(top[r], 1));
            top[r] = fmaxf(top[r], gpu.shuffle_xor(top[r], 2));
            const float shrink = top[r] == -infinity() ? 1.0f : exp2f(s.max[r] - top[r]);
            s.max[r] = top[r];
            s.sum[r] *= shrink;
            TRIREME_UNROLL
            for (int d = 0; d < kDim / 8; ++d) {
                s.acc[d][2 * r] *= shrink;
                s.acc[d][2 * r + 1] *= shrink;
            }
        }
        TRIREME_UNROLL
        for (int t = 0; t < kKeys / 8; ++t) {
            TRIREME_UNROLL
            for (int i = 0; i < 4; ++i) {
                score[t][i] = score[t][i] == -infinity() ? 0.0f : exp2f(score[t][i] - top[i / 2]);
                s.sum[i / 2] += score[t][i];
            }
        }
        // Two tiles of scores have the layout of one tile of probabilities.
        TRIREME_UNROLL
        for (int step = 0; step < kKeys / 16; ++step) {
            const float(&low)[4] = score[2 * step], (&high)[4] = score[2 * step + 1];
            const uint32_t left[4] = {pack<T>(low[0], low[1]), pack<T>(low[2], low[3]), pack<T>(high[0], high[1]),
                                      pack<T>(high[2], high[3])};
            TRIREME_UNROLL
            for (int d = 0; d < kDim / 8; ++d) {
                const uint16_t* value = values + (d * 8 + group) * kValueStride + step * 16 + quad * 2;
                const uint32_t right[2] = {word(value), word(value + 8)};
                gpu.template mma<T>(s.acc[d], left, right);
            }
        }
    }

    template <class Gpu>
    TRIREME_GPU static void store(Gpu& gpu, const Args& a, const Vector (&vector)[2], int quad, State& s) {
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            s.sum[r] += gpu.shuffle_xor(s.sum[r], 1);
            s.sum[r] += gpu.shuffle_xor(s.sum[r], 2);
            const Vector& v = vector[r];
            if (v.row < 0) continue;
            if (a.totals.data != nullptr && quad == 0) {
                a.totals(v.row)[2 * v.head] = s.max[r];
                a.totals(v.row)[2 * v.head + 1] = s.sum[r];
            }
            float* out = a.out(v.row) + v.head * a.kv.dim;
            TRIREME_UNROLL
            for (int d = 0; d < kDim / 8; ++d) {
                const int64_t at = d * 8 + quad * 2;
                if (at >= a.kv.dim) continue;
                const bool seen = v.begin <= v.slot;  // else the sum is 0
                out[at] = seen ? s.acc[d][2 * r] / s.sum[r] : 0.0f;
                out[at + 1] = seen ? s.acc[d][2 * r + 1] / s.sum[r] : 0.0f;
            }
        }
    }
};

}  // namespace trireme::gpu
