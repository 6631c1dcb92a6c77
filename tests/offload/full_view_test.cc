#include "offload/full_view.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

const KvShape kShape{.layout = {.kv_heads = 2, .head_dim = 8, .k_type = DType::kF32, .v_type = DType::kF32},
                     .owner_layers = 3,
                     .sequences = 2,
                     .context = 600};

struct Fixture {
    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> stream = device->make_stream("kv");
    std::unique_ptr<Kernels> op = make_kernels(
        *device, *stream, Phase::kDecode, {.max_rows = kMaxRows, .max_k = 16, .max_n = 16, .heads = 2, .head_dim = 8});
    FullView kv{*device, *stream, kShape};
    Buffer<Space::kHost> host{*device, kMaxRows * 16 * sizeof(float)};
    Buffer<Space::kDevice> dev{*device, kMaxRows * 16 * sizeof(float)};

    /// K and V of row r are value + r in every element.
    void stage(int64_t rows, float value) {
        const Shape shape{rows, 16};
        const Matrix<float> m = host.tensor(DType::kF32, shape).as<float>();
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < 16; ++c) m(r, c) = value + static_cast<float>(r);
        }
        stream->copy(dev.tensor(DType::kF32, shape), host.tensor(DType::kF32, shape));
        for (int64_t l = 0; l < kShape.owner_layers; ++l) {
            op->kv_stage(kv.layer(OwnerIndex(l)), dev.tensor(DType::kF32, shape), dev.tensor(DType::kF32, shape));
        }
        stream->synchronize();
    }
    void grow(int64_t sequence, int64_t n) {
        kv.begin_prefill(sequence, n);
        kv.end_prefill();
    }
    /// The key of head h at a position, as it lies in its tile.
    float key(int64_t layer, int64_t sequence, int64_t position, int64_t h) const {
        const auto* table = static_cast<const int64_t*>(kv.layer(OwnerIndex(layer)).tiles.data());
        const int64_t tiles = kShape.tiles_per_sequence();
        const auto* tile = reinterpret_cast<const float*>(table[sequence * tiles + position / kTileTokens]);
        return tile[(h * kTileTokens + position % kTileTokens) * 8 + 3];
    }
};

TEST(FullView, TilesAreDisjointAndEveryByteOfTheBufferIsOnes) {
    Fixture f;
    std::vector<int64_t> addresses;
    for (int64_t l = 0; l < 3; ++l) {
        const auto* table = static_cast<const int64_t*>(f.kv.layer(OwnerIndex(l)).tiles.data());
        addresses.insert(addresses.end(), table, table + 2 * 3);
    }

    ASSERT_EQ(addresses.size(), 18u);
    for (size_t i = 1; i < addresses.size(); ++i) {
        EXPECT_EQ(addresses[i] - addresses[i - 1], static_cast<int64_t>(kShape.layout.tile_bytes()));
    }
    EXPECT_EQ(kShape.bytes(), 18 * kShape.layout.tile_bytes());
    EXPECT_EQ(kShape.layout.tile_bytes(), 2u * 2 * 256 * 8 * 4);
}

TEST(FullView, KeepsTheChosenRowsInOrder) {
    Fixture f;
    f.grow(1, 255);
    f.stage(5, 100);
    const std::vector<int32_t> rows = {0, 2, 4};

    f.kv.keep(*f.op, 1, rows);
    f.stream->synchronize();

    EXPECT_EQ(f.kv.length(1), 258);
    EXPECT_EQ(f.kv.length(0), 0);
    for (int64_t l = 0; l < 3; ++l) {
        for (int64_t h = 0; h < 2; ++h) {
            EXPECT_EQ(f.key(l, 1, 255, h), 100);
            EXPECT_EQ(f.key(l, 1, 256, h), 102);  // the next tile
            EXPECT_EQ(f.key(l, 1, 257, h), 104);
            EXPECT_EQ(f.key(l, 0, 0, h), 0);
        }
    }
}

TEST(FullView, TruncatesAndGrowsAgain) {
    Fixture f;
    f.stage(4, 10);
    const std::vector<int32_t> all = {0, 1, 2, 3}, one = {1};
    f.kv.keep(*f.op, 0, all);
    f.kv.truncate(0, 2);
    f.kv.keep(*f.op, 0, one);
    f.stream->synchronize();

    EXPECT_EQ(f.kv.length(0), 3);
    EXPECT_EQ(f.key(0, 0, 1, 0), 11);
    EXPECT_EQ(f.key(0, 0, 2, 0), 11);
    EXPECT_THROW(f.kv.truncate(0, 4), Error);
}

TEST(FullView, RefusesTokensBeyondTheContext) {
    Fixture f;
    f.grow(0, 599);
    const std::vector<int32_t> two = {0, 1}, none;
    EXPECT_THROW(f.kv.keep(*f.op, 0, two), Error);
    EXPECT_THROW(f.grow(0, 2), Error);
    f.kv.keep(*f.op, 0, none);
    EXPECT_EQ(f.kv.length(0), 599);
}

// More keeps in flight than there are slots for their lists.
TEST(FullView, ManyKeepsInARowDoNotOverwriteEachOther) {
    Fixture f;
    f.stage(64, 0);
    for (int32_t i = 0; i < 64; ++i) {
        const std::vector<int32_t> row = {63 - i};
        f.kv.keep(*f.op, 0, row);
    }
    f.stream->synchronize();

    for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(f.key(2, 0, i, 1), static_cast<float>(63 - i));
}

}  // namespace
}  // namespace trireme::test
