/// The code of KV tiles gives back every bit, on every target and backend; the device's code is the host's.

#include <cstring>
#include <random>
#include <vector>

#include <hwy/highway.h>

#include "kernels/cpu/tile_decode_512.h"
#include "kernels/tile_coder.h"
#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

struct Tiles {
    Tiles(const KvLayout& l, int64_t n) : layout(l), count(n), bytes(static_cast<size_t>(n) * l.tile_bytes()) {}
    uint16_t& at(int64_t tile, int64_t part, int64_t token, int64_t channel) {
        const int64_t heads = layout.kv_heads, dim = layout.head_dim;
        const int64_t place =
            part < heads ? key_place(backend_name(), layout.k_type, dim, token, channel) : token * dim + channel;
        return reinterpret_cast<uint16_t*>(bytes.data())[(tile * 2 * heads + part) * kTileTokens * dim + place];
    }
    /// Calls set(tile, part, token, channel) -> bits for all elements.
    template <class Set>
    Tiles& fill(const Set& set) {
        for (int64_t t = 0; t < count; ++t) {
            for (int64_t p = 0; p < 2 * layout.kv_heads; ++p) {
                for (int64_t i = 0; i < kTileTokens; ++i) {
                    for (int64_t c = 0; c < layout.head_dim; ++c) at(t, p, i, c) = set(t, p, i, c);
                }
            }
        }
        return *this;
    }
    const char* tile(int64_t t) const {
        return reinterpret_cast<const char*>(bytes.data()) + static_cast<size_t>(t) * layout.tile_bytes();
    }

    KvLayout layout;
    int64_t count;
    BackendVector<std::byte> bytes;
};

uint16_t bits(DType type, double x) {
    return type == DType::kF16 ? f16(static_cast<float>(x)).bits : bf16(static_cast<float>(x)).bits;
}
int exponent(DType type, uint16_t bits) {
    return type == DType::kF16 ? bits >> 10 & 31 : bits >> 7 & 255;
}

/// Normal numbers; each channel has its own scale.
Tiles normal(const KvLayout& l, int64_t n, uint32_t seed) {
    Tiles tiles(l, n);
    Normal number(seed);
    tiles.fill([&](int64_t, int64_t p, int64_t, int64_t c) {
        return bits(p < l.kv_heads ? l.k_type : l.v_type, number() * std::exp2(static_cast<double>(c * 7 % 11 - 5)));
    });
    return tiles;
}

/// The escapes of a tile, by the rule of tile_code.h: elements outside of the window of seven exponents that begins at
/// the base of their channel.
uint32_t escapes(Tiles& tiles, int64_t tile) {
    const KvLayout& l = tiles.layout;
    uint32_t all = 0;
    for (int64_t p = 0; p < 2 * l.kv_heads; ++p) {
        const DType type = p < l.kv_heads ? l.k_type : l.v_type;
        for (int64_t c = 0; c < l.head_dim; ++c) {
            int most = 0;
            for (int64_t i = 0; i < kTileTokens; ++i) most = std::max(most, exponent(type, tiles.at(tile, p, i, c)));
            const auto outside = [&](int base) {
                uint32_t n = 0;
                for (int64_t i = 0; i < kTileTokens; ++i) {
                    const int distance = base - exponent(type, tiles.at(tile, p, i, c));
                    n += distance < 0 || distance > kLongestCode ? 1 : 0;
                }
                return n;
            };
            uint32_t fewest = UINT32_MAX;
            for (int below = 0; below <= kLowestBase; ++below) fewest = std::min(fewest, outside(most - below));
            if (fewest > kManyEscapes) {
                for (int base = 0; base < 256; ++base) fewest = std::min(fewest, outside(base));
            }
            all += fewest;
        }
    }
    return all;
}

constexpr DType kTypes[] = {DType::kBF16, DType::kF16};

std::vector<KvLayout> layouts() {
    std::vector<KvLayout> all;
    for (const DType k : kTypes) {
        for (const DType v : kTypes) {
            for (const int64_t dim : {8, 24, 64, 96, 128, 256}) all.push_back({dim > 96 ? 1 : 3, dim, k, v});
        }
    }
    return all;
}

/// The coder of the backend, on a stream of its own.
struct Coder {
    explicit Coder(const KvLayout& layout)
        : device(backend_device(1)),
          stream(device->make_stream("codec")),
          coder(make_tile_coder(*device, *stream, layout)) {}
    const TileCode& code() const { return coder->code(); }

    std::vector<uint32_t> encode(const Tiles& tiles) {
        coded.assign(static_cast<size_t>(tiles.count * code().bytes), std::byte{0x5a});
        BackendVector<uint32_t> counts(static_cast<size_t>(tiles.count), 0xdeadbeef);
        coder->encode(reinterpret_cast<char*>(coded.data()), counts.data(), tiles.tile(0), tiles.count);
        stream->synchronize();
        return {counts.begin(), counts.end()};
    }
    Tiles decode(const KvLayout& layout, int64_t n) {
        Tiles out(layout, n);
        std::fill(out.bytes.begin(), out.bytes.end(), std::byte{0xa5});
        coder->decode(reinterpret_cast<char*>(out.bytes.data()), reinterpret_cast<const char*>(coded.data()), n);
        stream->synchronize();
        return out;
    }
    /// The code of a tile, without its padding and what is after its last escape.
    std::vector<std::byte> code_of(const std::byte* from, uint32_t count) const {
        std::vector<std::byte> bytes(from, from + code().escapes + count);
        std::fill(bytes.begin() + code().bases + 2 * code().heads * code().dim, bytes.begin() + code().data,
                  std::byte{});
        return bytes;
    }

    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<TileCoder> coder;
    BackendVector<std::byte> coded;
};

void expect_same_bits(const Tiles& tiles, const std::string& what) {
    Coder coder(tiles.layout);
    for (const uint32_t count : coder.encode(tiles)) ASSERT_LE(count, coder.code().capacity) << what;
    const Tiles back = coder.decode(tiles.layout, tiles.count);
    ASSERT_TRUE(back.bytes == tiles.bytes) << what;
}

/// on_every_target(), and with all that the CPU has.
void in_every_way(const std::function<void()>& body) {
    body();
#if HWY_ARCH_X86_64
    allow_tile_decode_512(false);
#endif
    on_every_target(body);
#if HWY_ARCH_X86_64
    allow_tile_decode_512(true);
#endif
}

TEST(TileCode, GivesBackEveryBitOfNormalNumbers) {
    in_every_way([] {
        for (const KvLayout& l : layouts()) {
            const std::string what = fmt::format("{} {} {}", name_of(l.k_type), name_of(l.v_type), l.head_dim);
            expect_same_bits(normal(l, 3, 1), what);
        }
    });
}

TEST(TileCode, HasFewestEscapes) {
    in_every_way([] {
        for (const KvLayout& l : layouts()) {
            Tiles tiles = normal(l, 2, 2);
            Coder coder(l);
            const std::vector<uint32_t> counts = coder.encode(tiles);
            for (int64_t t = 0; t < 2; ++t) EXPECT_EQ(counts[static_cast<size_t>(t)], escapes(tiles, t));
        }
    });
}

TEST(TileCode, IsTheSameOnHostAndDevice) {
    for (const KvLayout& l : layouts()) {
        Tiles tiles = normal(l, 2, 3);
        Coder coder(l);
        const std::vector<uint32_t> counts = coder.encode(tiles);
        for (int64_t t = 0; t < 2; ++t) {
            const uint32_t count = counts[static_cast<size_t>(t)];
            std::vector<std::byte> host(static_cast<size_t>(coder.code().bytes)), plain(l.tile_bytes());
            auto* at = reinterpret_cast<char*>(host.data());
            EXPECT_EQ(encode_tile(coder.code(), backend_name(), tiles.tile(t), at), count);
            decode_tile(coder.code(), backend_name(), at, reinterpret_cast<char*>(plain.data()));
            EXPECT_EQ(std::memcmp(plain.data(), tiles.tile(t), plain.size()), 0);
            EXPECT_EQ(coder.code_of(coder.coded.data() + t * coder.code().bytes, count),
                      coder.code_of(host.data(), count))
                << name_of(l.k_type) << name_of(l.v_type) << l.head_dim;
        }
    }
}

// Each 16-bit pattern stands in a channel whose other elements have its exponent.
TEST(TileCode, GivesBackEveryPattern) {
    in_every_way([] {
        for (const DType type : kTypes) {
            const KvLayout l{2, 128, type, type};
            Tiles tiles(l, 1);
            const int mantissa = type == DType::kF16 ? 10 : 7;
            tiles.fill([&](int64_t, int64_t p, int64_t i, int64_t c) {  // 4 * 128 channels of 256 tokens: all, twice
                const int64_t n = (p * 128 + c) * 256 + i, low = n % (int64_t{2} << mantissa);
                const int64_t of = n / (int64_t{2} << mantissa) % (int64_t{1} << (15 - mantissa));
                return static_cast<uint16_t>((low & 1) << 15 | of << mantissa | low >> 1);
            });
            expect_same_bits(tiles, std::string(name_of(type)));
        }
    });
}

TEST(TileCode, GivesBackConstantsAndSpecialNumbers) {
    in_every_way([] {
        for (const DType type : kTypes) {
            const KvLayout l{1, 64, type, type};
            const uint16_t infinity = type == DType::kF16 ? 0x7c00 : 0x7f80;
            for (const uint16_t x : {uint16_t{0}, uint16_t{0x8000}, uint16_t{1}, uint16_t{0x8001}, infinity,
                                     static_cast<uint16_t>(infinity + 1), uint16_t{0xffff}, uint16_t{0x3f80}}) {
                expect_same_bits(Tiles(l, 1).fill([&](int64_t, int64_t, int64_t, int64_t) { return x; }),
                                 fmt::format("{} {:04x}", name_of(type), x));
            }
            // Subnormal numbers; zeros, infinities and NaNs among others, as far as there is room.
            Normal number(5);
            expect_same_bits(Tiles(l, 1).fill([&](int64_t, int64_t, int64_t, int64_t) {
                return static_cast<uint16_t>(number.below(128) | number.below(2) << 15);
            }),
                             "subnormal");
            expect_same_bits(Tiles(l, 1).fill([&](int64_t, int64_t, int64_t i, int64_t) {
                const uint16_t rare[] = {0, infinity, 0xffff, 0x8000};
                return i % 64 == 9 ? rare[i / 64] : bits(type, 1 + std::fabs(number()));
            }),
                             "rare");
        }
    });
}

// Escapes up to the last place are stored; one more, and the count says that the code is not valid.
TEST(TileCode, CountsEscapesThatHaveNoRoom) {
    in_every_way([] {
        const KvLayout l{1, 64, DType::kBF16, DType::kBF16};
        const int64_t capacity = tile_code(l).capacity;
        for (const int64_t escaped : {capacity - 1, capacity, capacity + 1, int64_t{5000}}) {
            int64_t left = escaped;
            Tiles tiles(l, 1);
            tiles.fill([&](int64_t, int64_t, int64_t i, int64_t) {
                return bits(DType::kBF16, i % 2 == 1 && left-- > 0 ? 1e-9 : 1.5);
            });
            Coder coder(l);
            EXPECT_EQ(coder.encode(tiles)[0], static_cast<uint32_t>(escaped));
            if (escaped <= capacity) {
                EXPECT_TRUE(coder.decode(l, 1).bytes == tiles.bytes) << escaped;
            }
        }
        // Exponents at random
        std::mt19937 random(7);
        Tiles noise(l, 1);
        noise.fill([&](int64_t, int64_t, int64_t, int64_t) { return static_cast<uint16_t>(random()); });
        Coder coder(l);
        EXPECT_EQ(coder.encode(noise)[0], escapes(noise, 0));
        EXPECT_GT(escapes(noise, 0), static_cast<uint32_t>(capacity));
    });
}

// Any bytes are decoded: a damaged tile is found by its digest.
TEST(TileCode, DecodesDamagedBytes) {
    for (const DType type : kTypes) {
        const KvLayout l{2, 64, type, type};
        Tiles tiles = normal(l, 1, 9);
        Coder coder(l);
        const uint32_t count = coder.encode(tiles)[0];
        std::mt19937 random(11);
        const auto used = static_cast<uint32_t>(coder.code().escapes) + count;
        int same = 0;
        for (int n = 0; n < (emulated() ? 20 : 400); ++n) {
            // Some bits of bases, and of counts of blocks without escapes, have no effect.
            const auto first = static_cast<uint32_t>(n % 2 == 0 ? 0 : coder.code().data);
            const auto end = n % 2 == 0 ? static_cast<uint32_t>(coder.code().data) : used;
            std::byte& one = coder.coded[first + random() % (end - first)];
            const std::byte was = one;
            one ^= static_cast<std::byte>(1 << random() % 8);
            if (n % 2 == 0) {
                coder.decode(l, 1);
            } else {
                same += coder.decode(l, 1).bytes == tiles.bytes ? 1 : 0;
            }
            one = was;
        }
        EXPECT_LE(same, 4);  // a wrong escape may by chance have the right exponent
        for (std::byte& b : coder.coded) b = static_cast<std::byte>(random());
        coder.decode(l, 1);
        EXPECT_FALSE(coder.decode(l, 1).bytes == tiles.bytes);
    }
}

TEST(TileCode, IsSmallerThanThePlainTile) {
    const auto ratio = [](const KvLayout& l) {
        return static_cast<double>(l.tile_bytes()) / static_cast<double>(tile_code(l).bytes);
    };
    EXPECT_GT(ratio({3, 64, DType::kBF16, DType::kBF16}), 1.405);  // SmolLM2-135M
    EXPECT_GT(ratio({8, 128, DType::kBF16, DType::kBF16}), 1.41);
    EXPECT_GT(ratio({3, 64, DType::kF16, DType::kF16}), 1.115);
    EXPECT_FALSE(has_tile_code({3, 64, DType::kF32, DType::kBF16}));
    EXPECT_FALSE(has_tile_code({3, 62, DType::kBF16, DType::kBF16}));
    EXPECT_FALSE(has_tile_code({1, 512, DType::kBF16, DType::kBF16}));
    EXPECT_THROW(tile_code({3, 64, DType::kF32, DType::kF32}), Error);
}

}  // namespace
}  // namespace trireme::test
