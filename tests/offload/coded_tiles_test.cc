// Coded tiles: every bit comes back, also of tiles without a code; and bytes that change in host memory are noticed.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/stream/raw_bytes.h"
#include "offload/stream/transport.h"
#include "runtime/error.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

StreamShape shape_of(DType type) {
    return {.layout = {.kv_heads = 2, .head_dim = 16, .k_type = type, .v_type = type},
            .layers = 2,
            .sequences = 1,
            .tiles = 12,
            .span_bytes = size_t{32} << 10,
            .coded = true};
}

/// Tiles on a device, which go to host memory and back.
struct Way {
    explicit Way(const StreamShape& s, bool verify = false)
        : shape(s),
          transport(*device, *compute, s, {OwnerIndex(2), OwnerIndex(5)}, {}, verify),
          from(*device, static_cast<size_t>(s.tiles) * s.tile_bytes()),
          to(*device, from.bytes()) {}
    char* tile(const Buffer<Space::kDevice>& of, int64_t t) const {
        return static_cast<char*>(of.data()) + static_cast<size_t>(t) * shape.tile_bytes();
    }
    uint16_t* elements(int64_t t) const { return reinterpret_cast<uint16_t*>(tile(from, t)); }
    int64_t elements() const { return static_cast<int64_t>(shape.tile_bytes() / 2); }

    void store(const TileRange& tiles) {
        transport.seal(tile(from, tiles.first), StreamedIndex(1), 0, tiles);
        const Transport::Written span{tile(from, tiles.first), StreamedIndex(1), tiles};
        transport.store({&span, 1}, 0, transport.order().record(Lane::kCompute));
        transport.settle();
    }
    void fetch(const TileRange& tiles) {
        std::memset(to.data(), 0xee, to.bytes());
        transport.order().wait(Lane::kCompute, transport.fetch(tile(to, tiles.first), StreamedIndex(1), 0, tiles));
        compute->synchronize();
    }
    bool same(int64_t t) const { return std::memcmp(tile(from, t), tile(to, t), shape.tile_bytes()) == 0; }

    StreamShape shape;
    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> compute = device->make_stream("compute");
    Transport transport;
    Buffer<Space::kDevice> from, to;
};

/// Numbers whose exponents have a code; or any bits, which have none.
void fill(const Way& way, int64_t t, bool noise, uint32_t seed) {
    std::mt19937 random(seed);
    for (int64_t i = 0; i < way.elements(); ++i) {
        const auto bits = static_cast<uint32_t>(random());
        const float x = (static_cast<float>(bits >> 9 & 0xfff) / 4096 + 0.1F) * ((bits & 1) != 0 ? 1.0F : -1.0F);
        const DType type = way.shape.layout.k_type;
        way.elements(t)[i] = noise                 ? static_cast<uint16_t>(bits >> 16)
                             : type == DType::kF16 ? f16(x).bits
                                                   : bf16(x).bits;
    }
}

TEST(CodedTiles, EveryBitComesBackAlsoOfTilesWithoutACode) {
    for (const DType type : {DType::kBF16, DType::kF16}) {
        Way way(shape_of(type));
        std::mt19937 random(1);
        for (int round = 0; round < 8; ++round) {
            int64_t noisy = 0;
            for (int64_t t = 0; t < way.shape.tiles; ++t) {
                const bool noise = type == DType::kBF16 && random() % 3 == 0;
                noisy += noise ? 1 : 0;
                fill(way, t, noise, static_cast<uint32_t>(round * 100 + t));
            }
            const LinkUse before = way.transport.use();
            for (const TileRange& part : {TileRange{0, 1}, {1, 8}, {8, 12}}) way.store(part);
            EXPECT_EQ(way.transport.plain_tiles(), noisy);
            for (const TileRange& part : {TileRange{0, 12}, {3, 4}, {5, 11}}) {
                way.fetch(part);
                for (int64_t t = part.first; t < part.end; ++t) EXPECT_TRUE(way.same(t)) << round << " " << t;
            }
            way.fetch({0, 12});
            const LinkUse use = way.transport.use() - before;
            const size_t stored = static_cast<size_t>(noisy) * way.shape.tile_bytes() +
                                  static_cast<size_t>(way.shape.tiles - noisy) * way.shape.stored_bytes();
            EXPECT_EQ(use.d2h_bytes, stored);
            EXPECT_EQ(use.d2h_plain_bytes, way.from.bytes());
            EXPECT_EQ(use.h2d_plain_bytes, 2 * way.from.bytes() + 7 * way.shape.tile_bytes());
            EXPECT_LT(use.h2d_bytes, use.h2d_plain_bytes);
            for (int64_t t = 0; t < way.shape.tiles; ++t) {  // as a snapshot reads them
                std::vector<std::byte> plain(way.shape.tile_bytes());
                const char* at = way.transport.stored_at(StreamedIndex(1), 0, t);
                if (at == nullptr) {
                    way.transport.decode(StreamedIndex(1), 0, t, plain.data());
                } else {
                    std::memcpy(plain.data(), at, plain.size());
                }
                EXPECT_EQ(std::memcmp(plain.data(), way.tile(way.from, t), plain.size()), 0) << t;
            }
        }
    }
}

// A change of any byte of a coded tile gives another tile, or by chance the same one.
TEST(CodedTiles, AnyChangedByteGivesAnotherTile) {
    for (const DType type : {DType::kBF16, DType::kF16}) {
        Way way(shape_of(type));
        fill(way, 0, /*noise=*/false, 3);
        way.store({0, 1});
        int64_t same = 0;
        char* const coded = way.transport.coded_at(StreamedIndex(1), 0, 0);
        // What follows the last escape has no effect, nor have some bits of counts and bases.
        const auto bytes = static_cast<size_t>(tile_code(way.shape.layout).escapes);
        for (size_t at = 0; at < bytes; at += kSanitized ? 97 : 1) {
            coded[at] ^= static_cast<char>(1 << at % 8);
            way.fetch({0, 1});
            same += way.same(0) ? 1 : 0;
            coded[at] ^= static_cast<char>(1 << at % 8);
        }
        EXPECT_LT(same, static_cast<int64_t>(bytes / 50));
    }
}

TEST(CodedTiles, ChangedBytesAreFoundByTheirDigest) {
    for (const DType type : {DType::kBF16, DType::kF16}) {
        const StreamShape shape = shape_of(type);
        for (size_t at = 0; at < shape.stored_bytes(); at += 503) {
            Way way(shape, /*verify=*/true);
            fill(way, 0, /*noise=*/false, 3);
            way.store({0, 1});
            way.transport.coded_at(StreamedIndex(1), 0, 0)[at] ^= static_cast<char>(1 << at % 8);
            try {
                way.fetch({0, 1});
                EXPECT_TRUE(way.same(0)) << "byte " << at;
            } catch (const Error& e) {
                EXPECT_EQ(e.code(), Exit::kInternal);
                EXPECT_FALSE(way.same(0)) << "byte " << at;
                EXPECT_THAT(std::string(e.what()), testing::HasSubstr("tile 0 of owner layer 5,"));
            }
        }
    }
}

}  // namespace
}  // namespace trireme::test
