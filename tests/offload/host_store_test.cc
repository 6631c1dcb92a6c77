// Host memory in blocks: each tile of a layer and sequence has its own memory, whatever the blocks.

#include "offload/stream/host_store.h"

#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace trireme::test {
namespace {

constexpr int64_t kLayers = 5, kSequences = 2, kTiles = 3;
const StreamShape kShape{.layout = {.kv_heads = 1, .head_dim = 1, .k_type = DType::kF16, .v_type = DType::kF16},
                         .layers = kLayers,
                         .sequences = kSequences,
                         .tiles = kTiles};
const size_t kTile = kShape.tile_bytes();

void expect_all_tiles(HostStore& store) {
    std::set<char*> places;
    for (int64_t l = 0; l < kLayers; ++l) {
        for (int64_t s = 0; s < kSequences; ++s) {
            for (int64_t t = 0; t < kTiles; ++t) {
                char* const at = store.at(StreamedIndex(l), s, t);
                EXPECT_EQ(at, store.at(StreamedIndex(l), s, 0) + static_cast<size_t>(t) * kTile)
                    << "a row is contiguous";
                std::memset(at, static_cast<int>(places.size()), kTile);
                places.insert(at);
            }
        }
    }
    EXPECT_EQ(places.size(), static_cast<size_t>(kLayers * kSequences * kTiles));
    for (int64_t n = 0; n < kLayers * kSequences * kTiles; ++n) {  // no tile overwrote another one
        const char* const at = store.at(StreamedIndex(n / kTiles / kSequences), n / kTiles % kSequences, n % kTiles);
        EXPECT_EQ(at[0], static_cast<char>(n));
        EXPECT_EQ(at[kTile - 1], static_cast<char>(n));
    }
    EXPECT_GE(store.bytes(), static_cast<size_t>(kLayers * kSequences * kTiles) * kTile);
}

TEST(HostStore, IsOneBlockWhereThatIsSmallEnough) {
    const std::unique_ptr<Device> device = open_device("cpu");
    HostStore store(*device, kShape);
    EXPECT_EQ(store.blocks(), 1u);
    expect_all_tiles(store);
}

TEST(HostStore, CutsRowsIntoBlocks) {
    const std::unique_ptr<Device> device = open_device("cpu");
    const size_t kRow = static_cast<size_t>(kTiles) * kTile;
    for (const auto& [block, blocks] : {std::pair{kRow, 10u}, {3 * kRow, 4u}, {4 * kRow - 1, 4u}, {10 * kRow, 1u}}) {
        HostStore store(*device, kShape, block);
        EXPECT_EQ(store.blocks(), blocks) << block;
        expect_all_tiles(store);
    }
}

TEST(HostStore, GivesARowThatIsLargerThanABlockOneOfItsOwn) {
    const std::unique_ptr<Device> device = open_device("cpu");
    HostStore store(*device, kShape, kTile);
    EXPECT_EQ(store.blocks(), 10u);
    expect_all_tiles(store);
}

// Tiles that all sequences share are those of the first sequence.
TEST(HostStore, HasCommonTilesOnce) {
    const std::unique_ptr<Device> device = open_device("cpu");
    StreamShape shape = kShape;
    shape.common = 2;
    shape.sequences = 4;
    for (const size_t block : {HostStore::kBlockBytes, 4 * kTile, kTile}) {
        const HostStore store(*device, shape, block);
        std::set<char*> places;
        for (int64_t l = 0; l < kLayers; ++l) {
            for (int64_t s = 0; s < shape.sequences; ++s) {
                for (int64_t t = 0; t < kTiles; ++t) {
                    char* const at = store.at(StreamedIndex(l), s, t);
                    places.insert(at);
                    if (t < shape.common) {
                        EXPECT_EQ(at, store.at(StreamedIndex(l), 0, t));
                    }
                    std::memset(at, 1, kTile);
                }
            }
            EXPECT_EQ(store.at(StreamedIndex(l), 0, 2), store.at(StreamedIndex(l), 0, 0) + 2 * kTile);
        }
        EXPECT_EQ(places.size(), static_cast<size_t>(kLayers * (2 + 4)));
        EXPECT_EQ(store.bytes(), static_cast<size_t>(kLayers * (2 + 4)) * kTile);
    }
}

}  // namespace
}  // namespace trireme::test
