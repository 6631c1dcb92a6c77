#include "offload/full/full_cache.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/key_order.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

const KvShape kShape{.layout = {.kv_heads = 2, .head_dim = 8, .k_type = DType::kF32, .v_type = DType::kF32},
                     .owner_layers = 3,
                     .sequences = 2,
                     .context = 600};

struct Fixture {
    explicit Fixture(const KvShape& shape = kShape) : kv(*device, *stream, shape) {}
    ~Fixture() { stream->drain(); }

    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> stream = device->make_stream("kv");
    std::unique_ptr<Kernels> op = make_kernels(
        *device, *stream, Phase::kDecode, {.max_rows = kMaxRows, .max_k = 16, .max_n = 16, .heads = 2, .head_dim = 8});
    FullCache kv;
    Buffer<Space::kHost> host{*device, kMaxRows * 16 * sizeof(float)};
    Buffer<Space::kDevice> dev{*device, kMaxRows * 16 * sizeof(float)};

    /// Stages a row for each parent, in one sequence, or (-1) each in its own. K and V of row r are value + r
    /// everywhere.
    void stage(int64_t sequence, const std::vector<int32_t>& parents, float value) {
        const auto rows = static_cast<int64_t>(parents.size());
        const Shape shape{rows, 16};
        const Matrix<float> m = host.tensor(DType::kF32, shape).as<float>();
        for (int64_t r = 0; r < rows; ++r) {
            for (int64_t c = 0; c < 16; ++c) m(r, c) = value + static_cast<float>(r);
        }
        std::vector<int32_t> zeros(static_cast<size_t>(rows), 0), ancestors(static_cast<size_t>(rows * kMaxRows), 0);
        kv.drop();
        for (int64_t r = 0; r < rows; ++r) {
            kv.stage(sequence < 0 ? r : sequence, parents[static_cast<size_t>(r)]);
            ancestors[static_cast<size_t>(r * kMaxRows)] = static_cast<int32_t>(r);
        }
        // On the CPU, host vectors can serve as device memory.
        const auto of = [](std::vector<int32_t>& v, const Shape& s) { return Tensor(v.data(), DType::kI32, s); };
        const RowsView cache = {.slots = of(zeros, {rows}),
                                .sequences = of(zeros, {rows}),
                                .cached = of(zeros, {rows}),
                                .ancestors = of(ancestors, {rows, kMaxRows}),
                                .max_slots = 1};
        stream->copy(dev.tensor(DType::kF32, shape), host.tensor(DType::kF32, shape));
        for (OwnerIndex l; l.i < kShape.owner_layers; ++l) {
            kv.write(*op, l, dev.tensor(DType::kF32, shape), dev.tensor(DType::kF32, shape), cache);
        }
        stream->synchronize();
    }
    void grow(int64_t sequence, int64_t n) {
        kv.begin_prefill(sequence, n);
        kv.end();
    }
    /// An element of the key of head h at a position, read from its tile.
    float key(int64_t layer, int64_t sequence, int64_t position, int64_t h) const {
        const auto* table = static_cast<const int64_t*>(kv.layer(OwnerIndex(layer)).tiles.data());
        const int64_t tiles = kv.shape().tiles_per_sequence();
        const auto* tile = reinterpret_cast<const float*>(table[sequence * tiles + position / kTileTokens]);
        return tile[h * kTileTokens * 8 + key_place("cpu", DType::kF32, 8, position % kTileTokens, 3)];
    }
};

TEST(FullCache, TilesAreDisjointAndEveryByteOfTheBufferIsOnes) {
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

TEST(FullCache, KeepsTheChosenRowsInOrder) {
    Fixture f;
    f.grow(1, 255);
    f.stage(1, {-1, 0, 0, 2, 2}, 100);
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

TEST(FullCache, TruncatesAndGrowsAgain) {
    Fixture f;
    const std::vector<int32_t> all = {0, 1, 2, 3}, one = {0};
    f.stage(0, {-1, 0, 1, 2}, 10);
    f.kv.keep(*f.op, 0, all);
    f.kv.truncate(0, 2);
    f.stage(0, {-1}, 11);
    f.kv.keep(*f.op, 0, one);
    f.stream->synchronize();

    EXPECT_EQ(f.kv.length(0), 3);
    EXPECT_EQ(f.key(0, 0, 1, 0), 11);
    EXPECT_EQ(f.key(0, 0, 2, 0), 11);
    EXPECT_THROW(f.kv.truncate(0, 4), Error);
}

TEST(FullCache, RefusesTokensBeyondTheContext) {
    Fixture f;
    f.grow(0, 599);
    f.stage(0, {-1, 0}, 1);
    const std::vector<int32_t> two = {0, 1}, none;
    EXPECT_THROW(f.kv.keep(*f.op, 0, two), Error);
    EXPECT_THROW(f.grow(0, 2), Error);
    f.kv.keep(*f.op, 0, none);
    EXPECT_EQ(f.kv.length(0), 599);
}

// More keeps in flight than there are slots for their lists.
TEST(FullCache, ManyKeepsInARowDoNotOverwriteEachOther) {
    KvShape many = kShape;
    many.sequences = 64;
    Fixture f(many);
    f.stage(-1, std::vector<int32_t>(64, -1), 0);
    for (int32_t s = 63; s >= 0; --s) {
        const std::vector<int32_t> row = {s};
        f.kv.keep(*f.op, s, row);
    }
    f.stream->synchronize();

    for (int64_t s = 0; s < 64; ++s) EXPECT_EQ(f.key(2, s, 0, 1), static_cast<float>(s));
}

TEST(FullCache, KeepsPathsAlone) {
    Fixture f;
    f.stage(0, {-1, 0, 0, -1, 3}, 1);
    const auto keeps = [&](int64_t sequence, const std::vector<int32_t>& rows) {
        try {
            f.kv.keep(*f.op, sequence, rows);
            return true;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kInternal);
            return false;
        }
    };
    EXPECT_FALSE(keeps(0, {1}));        // without its parent
    EXPECT_FALSE(keeps(0, {0, 4}));     // a row of another branch
    EXPECT_FALSE(keeps(0, {0, 2, 1}));  // a sibling after it
    EXPECT_FALSE(keeps(0, {0, 5}));     // not staged
    EXPECT_FALSE(keeps(1, {0}));        // a row of another sequence
    EXPECT_EQ(f.kv.length(0), 0);
    EXPECT_TRUE(keeps(0, {3, 4}));
    EXPECT_EQ(f.kv.length(0), 2);
    EXPECT_FALSE(keeps(0, {0}));  // dropped with the other rows
}

TEST(FullCache, RowsAreStagedAfterOthersUntilThereIsNoRoom) {
    Fixture f;
    for (int32_t r = 0; r < kMaxRows; ++r) EXPECT_EQ(f.kv.stage(r % 2, r < 2 ? -1 : r - 2), r);
    EXPECT_EQ(f.kv.staged().depth(63), 31);
    EXPECT_EQ(f.kv.staged().path(4).size(), 3u);
    EXPECT_THROW(f.kv.stage(0, -1), Error);
    f.kv.drop();
    EXPECT_EQ(f.kv.stage(1, -1), 0);
    EXPECT_THROW(f.kv.stage(0, 0), Error);  // the parent is of another sequence
    EXPECT_THROW(f.kv.stage(1, 1), Error);  // the parent is the row itself
}

}  // namespace
}  // namespace trireme::test
