#include "model/checkpoint/layer_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

std::vector<int64_t> owners(const LayerMap& map) {
    std::vector<int64_t> all;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.owns(l)) all.push_back(l.i);
    }
    return all;
}
std::vector<int64_t> reads(const LayerMap& map) {
    std::vector<int64_t> all;
    for (const OwnerIndex owner : map.reads()) all.push_back(owner.i);
    return all;
}

// Maps of the reference's sections 1.1 to 1.4.
TEST(LayerMap, OwnersAreTheLayersThatAreRead) {
    const auto map = [](const char* text, int64_t layers) { return LayerMap::parse(text, layers, "test"); };
    EXPECT_EQ(owners(LayerMap::identity(3)), (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(LayerMap::identity(3), map("0_1_2", 3));

    const LayerMap lckv = map("0_4_4_4_4_5", 6);
    EXPECT_EQ(owners(lckv), (std::vector<int64_t>{0, 4, 5}));
    EXPECT_EQ(reads(lckv), (std::vector<int64_t>{0, 1, 1, 1, 1, 2}));
    EXPECT_TRUE(lckv.upward() && lckv.upward(LayerIndex(3)) && !lckv.upward(LayerIndex(4)));
    EXPECT_TRUE(lckv.read_from_below(LayerIndex(4)) && !lckv.read_from_below(LayerIndex(5)));

    // Owners that read another's keys and values.
    const LayerMap round = map("1_2_0", 3);
    EXPECT_EQ(owners(round), (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(reads(round), (std::vector<int64_t>{1, 2, 0}));
    EXPECT_EQ(round.number(LayerIndex(2)), OwnerIndex(2));
    const LayerMap mixed = map("3_0_5_3_4_5", 6);
    EXPECT_EQ(owners(mixed), (std::vector<int64_t>{0, 3, 4, 5}));
    EXPECT_EQ(reads(mixed), (std::vector<int64_t>{1, 0, 3, 1, 2, 3}));
    const LayerMap down = map("0_0_1_2_3", 5);
    EXPECT_EQ(owners(down), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_FALSE(down.upward());
}

// The plans of the reference, lckv 1.4.
TEST(LayerMap, BlocksAreClosedOverWhatTheyRead) {
    const auto plan = [](const char* text) {
        const int64_t layers = std::ranges::count(std::string(text), '_') + 1;
        std::string all;
        for (const LayerBlock& b : LayerMap::parse(text, layers, "test").blocks()) {
            all += fmt::format("{}{}-{}", b.iterated ? " iter " : " once ", b.first, b.end.i - 1);
        }
        return all;
    };
    EXPECT_EQ(plan("0_4_4_4_4_5"), " once 0-0 iter 1-4 once 5-5");
    EXPECT_EQ(plan("0_2_2_2_2_5"), " once 0-0 iter 1-2 once 3-5");
    EXPECT_EQ(plan("2_2_2_5_5_5"), " iter 0-2 iter 3-5");
    EXPECT_EQ(plan("3_0_5_3_4_5"), " iter 0-5");
    EXPECT_EQ(plan("1_2_0"), " iter 0-2");
    EXPECT_EQ(plan("0_1_2"), " once 0-2");
    EXPECT_EQ(plan("0_0_2_2"), " once 0-3");
    EXPECT_EQ(plan("1_1_3_3_5_5_7_7"), " iter 0-1 iter 2-3 iter 4-5 iter 6-7");
    EXPECT_EQ(plan("0_10_10_10_10_10_10_10_10_10_10_11"), " once 0-0 iter 1-10 once 11-11");
}

TEST(LayerMap, SaysItselfAsItIsRead) {
    for (const char* text : {"0", "0_0", "1_2_0", "0s_1_2s", "0_1_2_3_4_5_6_7_8_9_10_11"}) {
        const int64_t layers = std::ranges::count(std::string(text), '_') + 1;
        EXPECT_EQ(LayerMap::parse(text, layers, "test").text(), text);
    }
    const LayerMap windows = LayerMap::parse("0s_1_1s", 3, "test");
    EXPECT_TRUE(windows.windowed(LayerIndex(0)) && !windows.windowed(LayerIndex(1)) && windows.windowed(LayerIndex(2)));
    EXPECT_FALSE(LayerMap::identity(2).windowed(LayerIndex(1)));
}

TEST(LayerMap, ReadsRepeatedLayers) {
    for (const auto& [text, layers, whole] :
         {std::tuple{"0*1_28*28_29", 30,
                     "0_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_28_"
                     "28_28_29"},
          {"1*2", 2, "1_1"},
          {"0s_2s*2", 3, "0s_2s_2s"}}) {
        EXPECT_EQ(LayerMap::parse(text, layers, "test").text(), whole);
    }
}

TEST(LayerMap, RefusesWhatIsNoMap) {
    const auto refused = [](const std::string& text, int64_t layers, const std::string& words) {
        try {
            LayerMap::parse(text, layers, "a file");
            ADD_FAILURE() << text;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kData);
            EXPECT_THAT(e.what(), testing::HasSubstr(words)) << text;
            EXPECT_THAT(e.what(), testing::StartsWith("a file: "));
        }
    };
    refused("", 1, " 0 to 0 at character 0");
    refused("0_", 2, " 0 to 1 at character 2");
    refused("_0", 2, "at character 0");
    refused("0_2", 2, " 0 to 1 at character 2");
    refused("0_-1", 2, "at character 2");
    refused("0_1i", 2, "'i' at character 3");
    refused("0*", 2, "no count from 1 to 2 at character 2");
    refused("0*0_1", 2, "no count from 1 to 2 at character 2");
    refused("0*99999999999999999999", 2, "no count from 1 to 2 at character 2");
    refused("0*-1", 2, "no count from 1 to 2 at character 2");
    refused("0*3", 4, "is for 3 layers, the model has 4");
    refused("0*2*2", 4, "'*' at character 3");
    refused("0*2s", 2, "'s' at character 3");
    refused("0_1ss", 2, "'s' at character 4");
    refused("0 1", 2, "' ' at character 1");
    refused("0_99999999999999999999", 2, "at character 2");
    refused("0_1", 3, " 2 layers, the model has 3");
    refused("0_1_1", 2, " 3 layers, the model has 2");
}

}  // namespace
}  // namespace trireme::test
