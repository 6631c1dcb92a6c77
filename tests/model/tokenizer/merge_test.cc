#include "model/tokenizer/merge.h"

#include <random>

#include <gtest/gtest.h>

#include "model/tokenizer/pair_table.h"

namespace trireme::test {
namespace {

std::vector<int32_t> merged(const std::vector<int32_t>& ids, const PairTable& table) {
    Merger merger;
    for (size_t i = 0; i < ids.size(); ++i) merger.add(i, 1, ids[i]);
    merger.run([&](const Symbol& left, const Symbol& right) { return table.find(left.id, right.id); });
    std::vector<int32_t> out;
    size_t at = 0;
    merger.for_each([&](const Symbol& symbol) {
        EXPECT_EQ(symbol.begin, at);
        at += symbol.size;
        out.push_back(symbol.id);
    });
    EXPECT_EQ(at, ids.size());
    return out;
}

/// The definition: find the best pair, leftmost first, join it, start again.
std::vector<int32_t> merged_by_definition(std::vector<int32_t> ids, const PairTable& table) {
    for (;;) {
        size_t best = ids.size();
        Join join{~0u, -1};
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            if (ids[i] < 0 || ids[i + 1] < 0) continue;
            const auto found = table.find(ids[i], ids[i + 1]);
            if (found && found->rank < join.rank) {
                join = *found;
                best = i;
            }
        }
        if (best == ids.size()) return ids;
        ids[best] = join.id;
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
}

TEST(Merge, JoinsTheBestPairFirst) {
    PairTable table(3);
    table.insert(0, 1, {1, 3});
    table.insert(1, 2, {0, 4});
    table.insert(0, 4, {2, 5});

    EXPECT_EQ(merged({0, 1, 2}, table), std::vector<int32_t>{5});
    EXPECT_EQ(merged({0, 1, 0, 1, 2}, table), (std::vector<int32_t>{3, 5}));
    EXPECT_EQ(merged({2, 1, 0}, table), (std::vector<int32_t>{2, 1, 0}));
    EXPECT_EQ(merged({}, table), std::vector<int32_t>{});
    EXPECT_EQ(merged({0}, table), std::vector<int32_t>{0});
}

TEST(Merge, GoesFromLeftToRightAtEqualRank) {
    PairTable table(1);
    table.insert(0, 0, {0, 1});
    EXPECT_EQ(merged({0, 0, 0}, table), (std::vector<int32_t>{1, 0}));
    EXPECT_EQ(merged({0, 0, 0, 0, 0}, table), (std::vector<int32_t>{1, 1, 0}));
}

TEST(Merge, NeverJoinsWhatHasNoId) {
    PairTable table(1);
    table.insert(0, 0, {0, 1});
    EXPECT_EQ(merged({0, -1, 0, 0}, table), (std::vector<int32_t>{0, -1, 1}));
}

TEST(Merge, EqualsItsDefinition) {
    std::mt19937 random(20261121);
    const auto below = [&](int32_t n) { return static_cast<int32_t>(random() % static_cast<uint32_t>(n)); };
    for (int round = 0; round < 300; ++round) {
        PairTable table(60);
        int32_t tokens = 3;
        for (uint32_t rank = 0; rank < 50; ++rank) {  // ranks in twos: ties between different pairs
            const int32_t left = below(tokens);
            if (table.insert(left, below(tokens), {rank / 2, tokens})) ++tokens;
        }
        std::vector<int32_t> ids(static_cast<size_t>(below(60)));
        for (int32_t& id : ids) id = below(40) == 0 ? -1 : below(3);
        ASSERT_EQ(merged(ids, table), merged_by_definition(ids, table)) << "round " << round;
    }
}

// Quadratic time would take hours here; the test's own time limit is the assertion.
TEST(Merge, AMillionEqualSymbolsAreNoTrouble) {
    PairTable table(20);
    for (int32_t level = 0; level < 19; ++level) table.insert(level, level, {static_cast<uint32_t>(level), level + 1});
    const std::vector<int32_t> out = merged(std::vector<int32_t>(1 << 20, 0), table);
    EXPECT_EQ(out, (std::vector<int32_t>{19, 19}));
}

TEST(PairTable, KeepsTheFirstOrTheLast) {
    PairTable table(2);
    EXPECT_FALSE(table.find(0, 0).has_value());
    EXPECT_TRUE(table.insert(1, 2, {5, 6}));
    EXPECT_FALSE(table.insert(1, 2, {7, 8}));
    EXPECT_EQ(table.find(1, 2)->id, 6);
    table.replace(1, 2, {7, 8});
    EXPECT_EQ(table.find(1, 2)->rank, 7u);
    EXPECT_FALSE(table.find(2, 1).has_value());
    EXPECT_FALSE(PairTable().find(0, 0).has_value());
}

TEST(PairTable, HoldsManyPairs) {
    PairTable table(100'000);
    for (int32_t i = 0; i < 100'000; ++i) ASSERT_TRUE(table.insert(i % 317, i, {static_cast<uint32_t>(i), i}));
    for (int32_t i = 0; i < 100'000; ++i) ASSERT_EQ(table.find(i % 317, i)->id, i);
}

}  // namespace
}  // namespace trireme::test
