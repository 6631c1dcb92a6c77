// Host memory in blocks: a tile is where its layer and sequence say, whatever the blocks.

#include "offload/stream/host_store.h"

#include <cstring>
#include <set>

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace trireme::test {
namespace {

constexpr size_t kTile = 512;
constexpr int64_t kLayers = 5, kSequences = 2, kTiles = 3;

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
    for (int64_t n = 0; n < kLayers * kSequences * kTiles; ++n) {  // nobody wrote over anybody
        const char* const at = store.at(StreamedIndex(n / kTiles / kSequences), n / kTiles % kSequences, n % kTiles);
        EXPECT_EQ(at[0], static_cast<char>(n));
        EXPECT_EQ(at[kTile - 1], static_cast<char>(n));
    }
    EXPECT_GE(store.bytes(), static_cast<size_t>(kLayers * kSequences * kTiles) * kTile);
}

TEST(HostStore, IsOneBlockWhereThatIsSmallEnough) {
    const std::unique_ptr<Device> device = open_device("cpu");
    HostStore store(*device, kTile, kLayers, kSequences, kTiles);
    EXPECT_EQ(store.blocks(), 1u);
    expect_all_tiles(store);
}

TEST(HostStore, CutsRowsIntoBlocks) {
    const std::unique_ptr<Device> device = open_device("cpu");
    constexpr size_t kRow = static_cast<size_t>(kTiles) * kTile;
    for (const auto& [block, blocks] : {std::pair{kRow, 10u}, {3 * kRow, 4u}, {4 * kRow - 1, 4u}, {10 * kRow, 1u}}) {
        HostStore store(*device, kTile, kLayers, kSequences, kTiles, block);
        EXPECT_EQ(store.blocks(), blocks) << block;
        expect_all_tiles(store);
    }
}

TEST(HostStore, GivesARowThatIsLargerThanABlockOneOfItsOwn) {
    const std::unique_ptr<Device> device = open_device("cpu");
    HostStore store(*device, kTile, kLayers, kSequences, kTiles, kTile);
    EXPECT_EQ(store.blocks(), 10u);
    expect_all_tiles(store);
}

}  // namespace
}  // namespace trireme::test
