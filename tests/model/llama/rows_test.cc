// A row does not depend on its neighbours: logits of k rows verified at once have the bits of one at a time.

#include <algorithm>
#include <numeric>
#include <ostream>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"
#include "tests/support/near.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

constexpr int kVocab = 1024;

std::vector<int32_t> some_ids(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<int32_t> ids(n);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocab);
    return ids;
}

/// k rows after `committed` tokens: a chain, or a tree whose parents are drawn among the earlier rows.
std::vector<Row> make_rows(int k, int64_t committed, bool tree, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<Row> rows;
    for (int r = 0; r < k; ++r) {
        const int parent = r == 0 ? -1 : tree ? static_cast<int>(random() % static_cast<uint32_t>(r + 1)) - 1 : r - 1;
        const int64_t position = parent < 0 ? committed : rows[static_cast<size_t>(parent)].position + 1;
        rows.push_back({.token = static_cast<int32_t>(random() % kVocab),
                        .position = static_cast<int32_t>(position),
                        .parent = parent});
    }
    return rows;
}

std::vector<float> copy(const HostTensor& logits) {
    std::vector<float> out;
    const Matrix<float> m = logits.as<float>();
    for (int64_t r = 0; r < m.rows; ++r) out.insert(out.end(), m.row(r), m.row(r) + m.cols);
    return out;
}

/// The path from the committed tokens to row r.
std::vector<int32_t> path_to(const std::vector<Row>& rows, int r) {
    std::vector<int32_t> path;
    for (int at = r; at >= 0; at = rows[static_cast<size_t>(at)].parent) path.push_back(at);
    std::reverse(path.begin(), path.end());
    return path;
}

/// Compares all rows in one forward with each row's own path, one row per forward, from the same committed tokens.
void expect_rows_independent(Engine& engine, std::span<const int32_t> prompt, int k, bool tree, uint32_t seed) {
    engine->truncate(0, 0);
    engine->prefill(0, prompt);
    const auto committed = static_cast<int64_t>(prompt.size());
    const std::vector<Row> rows = make_rows(k, committed, tree, seed);

    engine->forward(rows);
    const std::vector<float> together = copy(engine->logits().host());

    std::vector<bool> checked(rows.size(), false);
    for (int leaf = k - 1; leaf >= 0; --leaf) {  // deepest paths first: each checks every row in it
        if (checked[static_cast<size_t>(leaf)]) continue;
        engine->truncate(0, committed);
        for (const int32_t r : path_to(rows, leaf)) {
            const std::vector<float> alone = engine.step(rows[static_cast<size_t>(r)].token);
            ASSERT_TRUE(same_bits(std::span<const float>(together).subspan(static_cast<size_t>(r) * kVocab, kVocab),
                                  std::span<const float>(alone)))
                << "row " << r << " of " << k << (tree ? " (tree)" : " (chain)") << " after " << committed;
            checked[static_cast<size_t>(r)] = true;
        }
    }
}

struct Setting {
    int ranks, threads;
    DType weights, kv;
};

std::string name_of(const Setting& s) {
    return fmt::format("ranks{}_threads{}_{}_{}", s.ranks, s.threads, trireme::name_of(s.weights),
                       trireme::name_of(s.kv));
}
void PrintTo(const Setting& s, std::ostream* out) {
    *out << name_of(s);
}

class Rows : public testing::TestWithParam<Setting> {};

TEST_P(Rows, AreIndependent) {
    const Setting s = GetParam();
    run_ranks(s.ranks, [&](Comm& comm) {
        Engine engine(data_path("models/kjv-target"),
                      {.weights = s.weights, .k_type = s.kv, .v_type = s.kv, .context = 2304}, comm, s.threads);
        uint32_t seed = 1;
        for (const size_t prompt : {1, 2, 37, 192, 255, 256, 257, 511, 700, 1023, 2100}) {
            const std::vector<int32_t> ids = some_ids(prompt, 7);
            for (const int k : {2, 3, 8, 17, 64}) {
                const bool tree = (seed % 2) == 0;
                expect_rows_independent(engine, ids, k, tree, seed++);
                if (testing::Test::HasFatalFailure()) return;
            }
        }
    });
}

// Every k from 1 to 64 once as a chain and once as a tree, after a prompt such that the rows cross a tile's edge.
TEST_P(Rows, OfEveryCountAreIndependent) {
    const Setting s = GetParam();
    run_ranks(s.ranks, [&](Comm& comm) {
        Engine engine(data_path("models/kjv-target"),
                      {.weights = s.weights, .k_type = s.kv, .v_type = s.kv, .context = 512}, comm, s.threads);
        const std::vector<int32_t> ids = some_ids(240, 7);
        for (int k = 1; k <= 64; ++k) {
            expect_rows_independent(engine, ids, k, /*tree=*/k % 2 == 0, 1000 + static_cast<uint32_t>(k));
            if (testing::Test::HasFatalFailure()) return;
        }
    });
}

// A tree may be staged by several forwards: level by level, or in any other pieces.
TEST_P(Rows, OfATreeThatGrowsOverForwardsAreIndependent) {
    const Setting s = GetParam();
    run_ranks(s.ranks, [&](Comm& comm) {
        Engine engine(data_path("models/kjv-target"),
                      {.weights = s.weights, .k_type = s.kv, .v_type = s.kv, .context = 512}, comm, s.threads);
        for (const int64_t committed : {3, 240}) {
            engine->truncate(0, 0);
            engine->prefill(0, some_ids(static_cast<size_t>(committed), 7));
            const std::vector<Row> rows = make_rows(64, committed, /*tree=*/true, 5);
            engine->forward(rows);
            const std::vector<float> together = copy(engine->logits().host());

            std::mt19937 random(9);
            std::vector<float> grown;
            for (size_t first = 0; first < rows.size();) {
                const size_t n = std::min<size_t>(1 + random() % 9, rows.size() - first);
                const std::span<const Row> some = std::span(rows).subspan(first, n);
                first == 0 ? engine->forward(some) : engine->extend(some);
                const std::vector<float> logits = copy(engine->logits().host());
                grown.insert(grown.end(), logits.begin(), logits.end());
                first += n;
            }
            EXPECT_TRUE(same_bits(std::span<const float>(grown), std::span<const float>(together)));
            EXPECT_THROW(engine->extend(std::vector<Row>{rows[0]}), Error);  // there is no room for one more

            const std::vector<int32_t> path = path_to(rows, 63);
            engine->keep(0, path);
            const std::vector<float> after = engine.step(5);
            engine->truncate(0, committed);
            for (const int32_t r : path) engine.step(rows[static_cast<size_t>(r)].token);
            const std::vector<float> alone = engine.step(5);
            EXPECT_TRUE(same_bits(std::span<const float>(after), std::span<const float>(alone)));
        }
    });
}

TEST(Keep, CommitsThePathOfATree) {
    run_ranks(2, [&](Comm& comm) {
        Engine engine(data_path("models/kjv-target"), kExact, comm);
        const std::vector<int32_t> ids = some_ids(250, 3);
        engine->prefill(0, ids);
        const std::vector<Row> rows = make_rows(40, 250, /*tree=*/true, 11);
        const std::vector<int32_t> path = path_to(rows, 39);

        engine->forward(rows);
        engine->keep(0, path);
        const std::vector<float> after_tree = engine.step(5);

        engine->truncate(0, 250);
        for (const int32_t r : path) engine.step(rows[static_cast<size_t>(r)].token);
        const std::vector<float> after_steps = engine.step(5);
        EXPECT_EQ(engine->length(), 250 + static_cast<int64_t>(path.size()) + 1);
        EXPECT_TRUE(same_bits(std::span<const float>(after_tree), std::span<const float>(after_steps)));
    });
}

TEST(Sequences, DoNotSeeEachOther) {
    run_ranks(2, [&](Comm& comm) {
        EngineOptions options = kExact;
        options.sequences = 3;
        options.context = 600;
        Engine engine(data_path("models/kjv-target"), options, comm);
        const std::vector<int32_t> lengths = {300, 1, 256};
        std::vector<std::vector<float>> alone;
        for (int s = 0; s < 3; ++s) {
            engine->prefill(s,
                            some_ids(static_cast<size_t>(lengths[static_cast<size_t>(s)]), static_cast<uint32_t>(s)));
        }
        std::vector<Row> rows;
        for (int s = 0; s < 3; ++s) {
            const Row row{.token = 17 + s, .position = lengths[static_cast<size_t>(s)], .parent = -1, .sequence = s};
            const std::vector<Row> one = {row};
            engine->forward(one);
            alone.push_back(copy(engine->logits().host()));
            rows.push_back(row);
        }

        engine->forward(rows);
        const std::vector<float> together = copy(engine->logits().host());

        for (size_t s = 0; s < 3; ++s) {
            EXPECT_TRUE(same_bits(std::span<const float>(together).subspan(s * kVocab, kVocab),
                                  std::span<const float>(alone[s])));
        }
    });
}

INSTANTIATE_TEST_SUITE_P(
    Settings, Rows,
    testing::Values(Setting{1, 1, DType::kF32, DType::kF32}, Setting{1, 2, DType::kF16, DType::kF16},
                    Setting{1, 2, DType::kBF16, DType::kBF16}, Setting{2, 1, DType::kF16, DType::kF16},
                    Setting{2, 2, DType::kBF16, DType::kF32}, Setting{3, 1, DType::kF32, DType::kBF16},
                    Setting{3, 2, DType::kF16, DType::kF16}),
    [](const auto& param) { return name_of(param.param); });

}  // namespace
}  // namespace trireme::test
