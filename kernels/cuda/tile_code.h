#pragma once
/// The code of KV tiles (kernels/tile_code.h) on a GPU. A block has a part of a tile: the keys, or the values, of a
/// head.

#include "kernels/cuda/kv.h"
#include "kernels/tile_code.h"

namespace trireme::gpu {

inline constexpr int kBlockTokens = kTile / kTokenBlocks;
inline constexpr int kLane = 16;  // consecutive elements that a thread codes: 16 bytes of a plane

/// Where a part is. Elements are 16 bits.
struct CodedPart {
    const uint16_t* plain;
    char* coded;  // the tile
    char *low, *high, *codes;
    int64_t index, dim;
    bool f16;

    TRIREME_GPU CodedPart(const TileCode& c, const char* plain_tiles, char* coded_tiles, int64_t tile, int64_t part)
        : coded(coded_tiles + tile * c.bytes), index(part), dim(c.dim) {
        const int64_t n = kTile * c.dim;
        const bool value = part >= c.heads;
        plain = reinterpret_cast<const uint16_t*>(plain_tiles) + (tile * 2 * c.heads + part) * n;
        f16 = value ? c.v_f16 : c.k_f16;
        low = coded + c.data + (value ? c.heads * c.k_part + (part - c.heads) * c.v_part : part * c.k_part);
        high = low + n;
        codes = f16 ? high + n / 8 * 3 : high;
    }
    TRIREME_GPU int exponent(uint32_t bits) const { return static_cast<int>(f16 ? bits >> 10 & 31 : bits >> 7 & 255); }
    /// Escapes of the tile's parts before this one.
    TRIREME_GPU int64_t escapes_before() const {
        int64_t before = 0;
        for (int64_t p = 0; p < index; ++p) before += reinterpret_cast<const uint32_t*>(coded)[p];
        return before;
    }
    /// The 16 bits of a plane of words that belong to elements [i, i + kLane).
    TRIREME_GPU static uint16_t* plane(char* words, int bit, int64_t i) {
        return reinterpret_cast<uint16_t*>(words + i / 64 * 24 + bit * 8 + i % 64 / 8);
    }
};

/// The code of an exponent.
TRIREME_GPU int code_of(int base, int exponent) {
    const int distance = base - exponent;
    return distance < 0 || distance > kLongestCode ? kEscape : distance;
}

/// The places of a lane's `count` escapes follow those of the lanes before it, from `next` on. Returns the first of
/// them, and moves `next` past those of all lanes.
template <class Gpu>
TRIREME_GPU int64_t take_places(Gpu& gpu, uint32_t count, int64_t& next) {
    float before = 0, all = static_cast<float>(count);
    for (int mask = 1; mask < kWarp; mask *= 2) {
        const float other = gpu.shuffle_xor(all, mask);
        if ((gpu.thread() & mask) != 0) before += other;
        all += other;
    }
    const int64_t first = next + static_cast<int64_t>(before);
    next += static_cast<int64_t>(all);
    return first;
}

/// Calls visit(in_block, i, works, next) for the elements [i, i + kLane) of each lane, in_block of their block on. A
/// warp has blocks of 16 tokens, whose escapes are consecutive; `next` is the place of its next one. All lanes of a
/// warp take part in every call; `works` is false for those that have no elements left.
template <int kThreads, class Gpu, class Visit>
TRIREME_GPU void for_lanes(Gpu& gpu, const TileCode& code, const CodedPart& part, const Visit& visit) {
    const auto* starts = reinterpret_cast<const uint16_t*>(part.coded + code.blocks) + part.index * kTokenBlocks;
    const int elements = kBlockTokens * static_cast<int>(part.dim), lane = gpu.thread() % kWarp;
    const int64_t before = part.escapes_before();
    for (int b = gpu.thread() / kWarp; b < kTokenBlocks; b += kThreads / kWarp) {
        int64_t next = before + starts[b];
        for (int step = 0; step < elements; step += kWarp * kLane) {
            const int in_block = step + lane * kLane;
            visit(in_block, int64_t{b} * elements + in_block, in_block < elements, next);
        }
    }
}

/// Chooses the bases, and counts escapes by blocks of 16 tokens. Grid: tiles, parts. A block has a part, since a
/// channel's base depends on all of its tokens.
struct ChooseBases {
    static constexpr int kThreads = 256;
    struct Shared {
        uint32_t largest[kThreads];
        uint32_t outside[kLowestBase + 1][kCodedDim];
        uint32_t base[kCodedDim], many[kCodedDim];
        uint32_t numbers[kLongestCode + 256], inside[256];
        uint32_t escapes[kTokenBlocks];
    };
    static constexpr int64_t kSharedBytes = sizeof(Shared);
    struct Args {
        TileCode code;
        const char* plain;
        char* coded;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        Shared& s = *static_cast<Shared*>(gpu.shared());
        const CodedPart part(a.code, a.plain, a.coded, gpu.block_x(), gpu.block_y());
        const int dim = static_cast<int>(part.dim), t = gpu.thread(), threads_of_channel = kThreads / dim;
        const int channel = t % dim, first = t / dim;
        const bool works = first < threads_of_channel;
        uint32_t most = 0;
        for (int i = first; works && i < kTile; i += threads_of_channel) {
            const auto e = static_cast<uint32_t>(part.exponent(part.plain[i * dim + channel]));
            most = e > most ? e : most;
        }
        s.largest[t] = most;
        if (t < dim) {
            for (int below = 0; below <= kLowestBase; ++below) s.outside[below][t] = 0;
        }
        gpu.sync();
        for (int other = 0; works && other < threads_of_channel; ++other) {
            const uint32_t theirs = s.largest[other * dim + channel];
            most = theirs > most ? theirs : most;
        }
        uint32_t outside[kLowestBase + 1] = {};
        for (int i = first; works && i < kTile; i += threads_of_channel) {
            const int e = part.exponent(part.plain[i * dim + channel]);
            TRIREME_UNROLL
            for (int below = 0; below <= kLowestBase; ++below) {
                outside[below] += code_of(static_cast<int>(most) - below, e) == kEscape ? 1 : 0;
            }
        }
        TRIREME_UNROLL
        for (int below = 0; below <= kLowestBase; ++below) {
            if (works) gpu.fetch_add(&s.outside[below][channel], outside[below]);
        }
        gpu.sync();
        if (t < dim) {
            int best = 0;
            for (int below = 1; below <= kLowestBase; ++below) {
                if (s.outside[below][t] < s.outside[best][t]) best = below;
            }
            s.base[t] = most - static_cast<uint32_t>(best);
            s.many[t] = s.outside[best][t] > kManyEscapes ? 1 : 0;
        }
        gpu.sync();
        for (int c = 0; c < dim; ++c) {
            if (s.many[c] != 0) choose_among_all(gpu, s, part, c);
        }
        if (t < dim)
            a.coded[gpu.block_x() * a.code.bytes + a.code.bases + part.index * dim + t] = static_cast<char>(s.base[t]);
        for (int b = t / kWarp; b < kTokenBlocks; b += kThreads / kWarp) {
            float escapes = 0;
            for (int i = t % kWarp; i < kBlockTokens * dim; i += kWarp) {
                const int e = part.exponent(part.plain[b * kBlockTokens * dim + i]);
                escapes += code_of(static_cast<int>(s.base[i % dim]), e) == kEscape ? 1.0f : 0.0f;
            }
            escapes = warp_sum(gpu, escapes);
            if (t % kWarp == 0) s.escapes[b] = static_cast<uint32_t>(escapes);
        }
        gpu.sync();
        if (t != 0) return;
        uint32_t all = 0;
        auto* starts = reinterpret_cast<uint16_t*>(part.coded + a.code.blocks) + part.index * kTokenBlocks;
        for (int b = 0; b < kTokenBlocks; ++b) {
            starts[b] = static_cast<uint16_t>(all);
            all += s.escapes[b];
        }
        reinterpret_cast<uint32_t*>(part.coded)[part.index] = all;
    }

  private:
    /// The base of a channel with outliers: of all exponents, the highest that leaves the fewest outside.
    template <class Gpu>
    TRIREME_GPU static void choose_among_all(Gpu& gpu, Shared& s, const CodedPart& part, int channel) {
        const int t = gpu.thread();
        s.numbers[t] = 0;
        if (t < kLongestCode) s.numbers[256 + t] = 0;
        gpu.sync();
        static_assert(kThreads == kTile);
        gpu.fetch_add(&s.numbers[kLongestCode + part.exponent(part.plain[t * part.dim + channel])], uint32_t{1});
        gpu.sync();
        uint32_t inside = 0;
        for (int code = 0; code <= kLongestCode; ++code) inside += s.numbers[kLongestCode + t - code];
        s.inside[t] = inside;
        gpu.sync();
        if (t == 0) {
            uint32_t best = 0;
            for (uint32_t base = 1; base < 256; ++base) {
                if (s.inside[base] >= s.inside[best]) best = base;
            }
            s.base[channel] = best;
        }
        gpu.sync();
    }
};

/// Writes planes and escapes. Grid: tiles, parts; for_lanes() divides a part among threads.
struct WriteCodes {
    static constexpr int kThreads = 256;
    struct Args {
        TileCode code;
        const char* plain;
        char* coded;
        uint32_t* counts;  // [tiles]
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const CodedPart part(a.code, a.plain, a.coded, gpu.block_x(), gpu.block_y());
        const int dim = static_cast<int>(part.dim);
        if (part.index == 2 * a.code.heads - 1 && gpu.thread() == 0) {
            const uint32_t mine = reinterpret_cast<const uint32_t*>(part.coded)[part.index];
            a.counts[gpu.block_x()] = static_cast<uint32_t>(part.escapes_before()) + mine;
        }
        const auto* bases = reinterpret_cast<const uint8_t*>(part.coded + a.code.bases) + part.index * dim;
        char* escapes = part.coded + a.code.escapes;
        for_lanes<kThreads>(gpu, a.code, part, [&](int in_block, int64_t i, bool works, int64_t& next) {
            uint32_t codes[3] = {}, high[3] = {}, escaped = 0, count = 0;
            Bits16 low = {}, elements[2] = {};
            if (works) {
                elements[0] = gpu.load16(part.plain + i);
                elements[1] = gpu.load16(part.plain + i + 8);
            }
            int channel = in_block % dim;
            TRIREME_UNROLL
            for (int e = 0; e < kLane; ++e) {
                const uint32_t x = elements[e / 8].word[e % 8 / 2] >> (16 * (e % 2)) & 0xffff;
                const int code = works ? code_of(bases[channel], part.exponent(x)) : 0;
                const uint32_t byte = part.f16 ? x & 0xff : (x >> 8 & 0x80) | (x & 0x7f);
                low.word[e / 4] |= byte << (8 * (e % 4));
                TRIREME_UNROLL
                for (int bit = 0; bit < 3; ++bit) {
                    codes[bit] |= (static_cast<uint32_t>(code) >> bit & 1) << e;
                    high[bit] |= (x >> (bit == 2 ? 15 : 8 + bit) & 1) << e;
                }
                escaped |= (code == kEscape ? 1u : 0u) << e;
                count += code == kEscape ? 1 : 0;
                if (++channel == dim) channel = 0;
            }
            int64_t at = take_places(gpu, count, next);
            if (!works) return;
            *reinterpret_cast<Bits16*>(part.low + i) = low;
            TRIREME_UNROLL
            for (int bit = 0; bit < 3; ++bit) {
                *CodedPart::plane(part.codes, bit, i) = static_cast<uint16_t>(codes[bit]);
                if (part.f16) *CodedPart::plane(part.high, bit, i) = static_cast<uint16_t>(high[bit]);
            }
            for (int e = 0; escaped != 0; ++e, escaped >>= 1) {
                if ((escaped & 1) == 0) continue;
                if (at < a.code.capacity) escapes[at] = static_cast<char>(part.exponent(part.plain[i + e]));
                ++at;
            }
        });
    }
};

/// Decodes tiles. Grid: tiles, parts; for_lanes() divides a part among threads. Lanes diverge only where an element is
/// an escape. Counts and starts of a damaged tile may be anything: no address depends on them without a bound.
struct DecodeTiles {
    static constexpr int kThreads = 256;
    static constexpr int64_t kSharedBytes = kCodedDim;
    struct Args {
        TileCode code;
        char* plain;
        const char* coded;
    };
    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const CodedPart part(a.code, a.plain, const_cast<char*>(a.coded), gpu.block_x(), gpu.block_y());
        const int dim = static_cast<int>(part.dim);
        auto* bases = static_cast<uint8_t*>(gpu.shared());
        if (gpu.thread() < dim) {
            bases[gpu.thread()] = static_cast<uint8_t>(part.coded[a.code.bases + part.index * dim + gpu.thread()]);
        }
        gpu.sync();
        const auto* escapes = reinterpret_cast<const uint8_t*>(part.coded + a.code.escapes);
        auto* plain = const_cast<uint16_t*>(part.plain);
        for_lanes<kThreads>(gpu, a.code, part, [&](int in_block, int64_t i, bool works, int64_t& next) {
            uint32_t codes[3] = {}, high[3] = {}, count = 0;
            Bits16 low = {};
            if (works) {
                low = gpu.load16(part.low + i);
                TRIREME_UNROLL
                for (int bit = 0; bit < 3; ++bit) {
                    codes[bit] = *CodedPart::plane(part.codes, bit, i);
                    if (part.f16) high[bit] = *CodedPart::plane(part.high, bit, i);
                }
            }
            const uint32_t escaped = codes[0] & codes[1] & codes[2];
            for (uint32_t left = escaped; left != 0; left &= left - 1) ++count;
            int64_t at = take_places(gpu, count, next);
            if (!works) return;
            Bits16 elements[2] = {};
            int channel = in_block % dim;
            TRIREME_UNROLL
            for (int e = 0; e < kLane; ++e) {
                const uint32_t code = (codes[0] >> e & 1) | (codes[1] >> e & 1) << 1 | (codes[2] >> e & 1) << 2;
                uint32_t exponent = (bases[channel] - code) & 255;
                if (code == kEscape) {
                    exponent = at >= 0 && at < a.code.capacity ? escapes[at] : 0;
                    ++at;
                }
                const uint32_t byte = low.word[e / 4] >> (8 * (e % 4)) & 0xff;
                const uint32_t x = part.f16 ? (high[2] >> e & 1) << 15 | (exponent & 31) << 10 |
                                                  (high[1] >> e & 1) << 9 | (high[0] >> e & 1) << 8 | byte
                                            : (byte & 0x80) << 8 | exponent << 7 | (byte & 0x7f);
                elements[e / 8].word[e % 8 / 2] |= x << (16 * (e % 2));
                if (++channel == dim) channel = 0;
            }
            *reinterpret_cast<Bits16*>(plain + i) = elements[0];
            *reinterpret_cast<Bits16*>(plain + i + 8) = elements[1];
        });
    }
};

}  // namespace trireme::gpu
