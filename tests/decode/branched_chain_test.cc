// Chains with siblings: their order, and what is left of them after a verify.

#include "decode/branched_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using testing::ElementsAre;

std::vector<std::pair<int32_t, int32_t>> rows_of(const BranchedChain& chain) {
    std::vector<std::pair<int32_t, int32_t>> rows;
    for (const Proposed& p : chain.proposal()) rows.emplace_back(p.token, p.parent);
    return rows;
}

TEST(BranchedChain, PutsSiblingsAfterTheirToken) {
    BranchedChain chain;
    chain.add(10, {});
    chain.add_siblings(std::vector<int32_t>{11, 10, 12}, 2, false);
    chain.add(20, {});
    chain.add_siblings(std::vector<int32_t>{21, 22, 20}, 2, false);
    chain.add(30, {});
    chain.add_siblings(std::vector<int32_t>{30, -1, -1}, 2, false);  // the distribution has no other token
    EXPECT_EQ(chain.length(), 3);
    using Row = std::pair<int32_t, int32_t>;
    EXPECT_THAT(rows_of(chain),
                ElementsAre(Row{10, -1}, Row{11, -1}, Row{12, -1}, Row{20, 0}, Row{21, 0}, Row{22, 0}, Row{30, 3}));
    const auto kept = [&](std::vector<int32_t> path) {
        const BranchedChain::Kept k = chain.kept(path, "chain");
        return std::pair(k.length, k.sibling);
    };
    using Kept = std::pair<int64_t, int32_t>;
    EXPECT_EQ(kept({}), (Kept{0, -1}));
    EXPECT_EQ(kept({0, 3, 6}), (Kept{3, -1}));
    EXPECT_EQ(kept({0, 5}), (Kept{1, 22}));
    EXPECT_EQ(kept({1}), (Kept{0, 11}));
    chain.clear();
    EXPECT_TRUE(chain.proposal().empty());
    chain.add(7, {});
    EXPECT_THAT(rows_of(chain), ElementsAre(Row{7, -1}));
}

// At temperature 0 siblings are point masses: the chosen token's distribution has no weight for them.
TEST(BranchedChain, GivesGreedySiblingsNoDistribution) {
    const RowDistribution held = {};
    const float logits[2] = {};
    BranchedChain chain;
    chain.add(10, {.distribution = &held, .row = {logits, 2, 2}});
    chain.add_siblings(std::vector<int32_t>{10, 11}, 1, true);
    ASSERT_EQ(chain.proposal().size(), 2u);
    EXPECT_NE(chain.proposal()[0].distribution.row.data, nullptr);
    EXPECT_EQ(chain.proposal()[1].distribution.row.data, nullptr);
}

TEST(BranchedChain, RefusesWhatIsNoPath) {
    BranchedChain chain;
    chain.add(10, {});
    chain.add_siblings(std::vector<int32_t>{11, 12}, 1, false);
    chain.add(20, {});
    for (const std::vector<int32_t>& path : {std::vector<int32_t>{3}, {1, 2}, {2}, {-1}, {0, 1}}) {
        EXPECT_ANY_THROW(chain.kept(path, "chain"));
    }
}

TEST(BranchedChain, RefusesAnIndexThatItHadBefore) {
    BranchedChain chain;
    chain.add(10, {});
    chain.add(20, {});
    chain.clear();
    chain.add(10, {});
    EXPECT_ANY_THROW(chain.kept(std::vector<int32_t>{0, 1}, "chain"));
}

TEST(BranchedChain, DrawsEachUniformOnce) {
    std::vector<double> all;
    for (int64_t i = 0; i < 63; ++i) append_sibling_uniforms(all, 5, {.sample = 1, .round = 2, .level = 1}, i, 7);
    EXPECT_EQ(all.size(), 63u * 8);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace trireme::test
