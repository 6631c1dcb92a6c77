// Rows that do not see themselves, and rows that see only their last slots (RowsView).

#include <algorithm>

#include "tests/kernels/kv_harness.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

struct Case {
    int64_t head_dim, kv_heads;
    std::vector<int32_t> kv_of_head;
    DType k_type, v_type;
};
const Case kCases[] = {
    {64, 2, {0, 0, 0, 1, 1, 1}, DType::kF16, DType::kF16},
    {40, 2, {0, 1}, DType::kF32, DType::kBF16},
    {80, 1, std::vector<int32_t>(7, 0), DType::kF16, DType::kF16},
};
struct Sight {
    bool itself;
    int64_t window;
};
constexpr Sight kSights[] = {{false, kEverySlot}, {true, 1},  {true, 7},    {true, 256},
                             {true, 300},         {false, 0}, {false, 255}, {false, 400}};

/// Keys and values of a sequence: `cached` tokens, followed by rows that may be staged.
struct Scene {
    Scene(const Case& c, int64_t cached_tokens, std::vector<int> tree)
        : shape(c),
          cached(cached_tokens),
          parents(std::move(tree)),
          kv({c.kv_heads, c.head_dim, c.k_type, c.v_type}, 1, (cached + rows()) / kTileTokens + 1),
          k(DType::kF32, cached + rows(), kv.width()),
          v(DType::kF32, cached + rows(), kv.width()),
          q(DType::kF32, rows(), static_cast<int64_t>(c.kv_of_head.size()) * c.head_dim, 5),
          heads(Operand::ids(c.kv_of_head)) {
        k.randomize(1);
        v.randomize(2);
        ks = stored(k, c.k_type);
        vs = stored(v, c.v_type);
        q.randomize(3, 2);
    }
    int64_t rows() const { return static_cast<int64_t>(parents.size()); }
    std::vector<int32_t> path(int64_t row) const {
        std::vector<int32_t> p;
        for (int r = static_cast<int>(row); r >= 0; r = parents[static_cast<size_t>(r)]) p.push_back(r);
        std::reverse(p.begin(), p.end());
        return p;
    }
    /// The row's result by definition, over the slots that the row sees.
    std::vector<double> want(int64_t row, const Sight& sight) {
        const std::vector<int32_t> p = path(row);
        const int64_t own = cached + static_cast<int64_t>(p.size()) - 1, end = own + (sight.itself ? 1 : 0);
        const int64_t begin = std::max(int64_t{0}, end - sight.window);
        if (begin >= end) return std::vector<double>(static_cast<size_t>(q.cols()), 0.0);
        Rows keys(end - begin, kv.width()), values = keys, one(1, q.cols());
        for (int64_t i = begin; i < end; ++i) {
            const int64_t from = i < cached ? i : cached + p[static_cast<size_t>(i - cached)];
            for (int64_t col = 0; col < kv.width(); ++col) {
                keys(i - begin, col) = ks(from, col);
                values(i - begin, col) = vs(from, col);
            }
        }
        for (int64_t col = 0; col < q.cols(); ++col) one(0, col) = q.get(row, col);
        tolerance = attention_tolerance(one, keys, values, static_cast<int64_t>(shape.kv_of_head.size()), inputs);
        return reference::attention(one, keys, values, shape.kv_of_head).at;
    }
    void check(Machine& m, RowSet& set, const Sight& sight, const std::vector<TileRange>& parts) {
        if (!sight.itself) {
            for (int64_t r = 0; r < rows(); ++r) --set.slots.at<int32_t>(r, 0);
        }
        RowsView view = set.view(cached + rows());
        view.window = sight.window;
        Operand out(DType::kF32, rows(), q.cols(), 3);
        for (const TileRange& part : parts) {
            Operand table(DType::kI64, 1, kv.table.cols());
            const LayerKv layer = parts.size() == 1 ? kv.view() : kv.view(table, part);
            m->attention(out.tensor(), q.tensor(), layer, heads.vector(), view, part);
            m.stream->synchronize();
        }
        EXPECT_TRUE(out.intact());
        for (int64_t r = 0; r < rows(); r += r < 8 || r + 17 >= rows() ? 1 : 17) {
            tolerance = 0;
            const std::vector<double> wanted = want(r, sight);
            ASSERT_TRUE((near<float, double>(out.row(r), wanted, tolerance)))
                << "head_dim " << shape.head_dim << ", row " << r << " after " << cached << ", window " << sight.window
                << (sight.itself ? "" : " without itself");
        }
    }

    Case shape;
    int64_t cached;
    std::vector<int> parents;
    Kv kv;
    Operand k, v, q, heads;
    Rows ks{0, 0}, vs{0, 0};  // k and v, rounded to their stored types
    DType inputs = DType::kF32;
    double tolerance = 0;
};

std::vector<int> chain(int64_t n) {
    std::vector<int> parents;
    for (int64_t i = 0; i < n; ++i) parents.push_back(static_cast<int>(i) - 1);
    return parents;
}

TEST(AttentionSeen, OfDecodedRows) {
    on_every_target([] {
        Machine prefill(Phase::kPrefill), m(Phase::kDecode);
        for (const Case& c : kCases) {
            for (const int64_t cached : {0, 3, 256, 700}) {
                for (const std::vector<int>& tree : {chain(1), std::vector<int>{-1, 0, 0, 1, 1, -1, 5}}) {
                    for (const Sight& sight : kSights) {
                        Scene s(c, cached, tree);
                        append_all(prefill, s.kv, 0, s.k, s.v);
                        stage_all(m, s.kv.view(), s.k.tensor().slice_rows(cached, s.rows()),
                                  s.v.tensor().slice_rows(cached, s.rows()));
                        RowSet set(s.rows());
                        for (int64_t r = 0; r < s.rows(); ++r) set.set(r, 0, cached, s.path(r));
                        s.check(m, set, sight, {TileRange{}});
                    }
                }
            }
        }
    });
}

// Tiles arrive in parts, and a row may see none of the first tiles.
TEST(AttentionSeen, OfTilesInParts) {
    on_every_target([] {
        Machine prefill(Phase::kPrefill), m(Phase::kDecode);
        for (const Case& c : kCases) {
            for (const Sight& sight : kSights) {
                Scene s(c, 1100, chain(5));
                append_all(prefill, s.kv, 0, s.k, s.v);
                stage_all(m, s.kv.view(), s.k.tensor().slice_rows(1100, 5), s.v.tensor().slice_rows(1100, 5));
                RowSet set(5);
                for (int64_t r = 0; r < 5; ++r) set.set(r, 0, 1100, s.path(r));
                s.check(m, set, sight, {{0, 1}, {1, 3}, {3, kEveryTile}});
            }
        }
    });
}

TEST(AttentionSeen, OfAPromptsRows) {
    on_every_target([] {
        Machine m(Phase::kPrefill);
        for (const Case& c : kCases) {
            for (const int64_t before : {0, 300}) {
                for (const int64_t rows : {1, 140}) {
                    for (const Sight& sight : kSights) {
                        if (kSanitized && rows > 1 && sight.window > 300) continue;
                        Scene s(c, before, chain(rows));
                        s.inputs = attended_in(c.k_type, c.v_type);
                        append_all(m, s.kv, 0, s.k, s.v);
                        RowSet set(rows);
                        for (int64_t r = 0; r < rows; ++r) set.set(r, 0, before + r, {0});
                        s.check(m, set, sight, {TileRange{}});
                    }
                }
            }
        }
    });
}

// Sequences share their first tiles. These are attended once for all rows, as if all were rows of one sequence; then
// each sequence's own tiles follow. Each row has the bits that it has alone.
TEST(AttentionSeen, OfSequencesThatShareTiles) {
    on_every_target([] {
        Machine prefill(Phase::kPrefill), m(Phase::kDecode);
        for (const Case& c : kCases) {
            constexpr int64_t kShared = 2 * kTileTokens;
            const std::vector<int64_t> lengths = {kShared + 1, kShared + 300, kShared, kShared + 256};
            const auto rows = static_cast<int64_t>(lengths.size()) * 2;  // a chain of two for each
            Kv kv({c.kv_heads, c.head_dim, c.k_type, c.v_type}, 4, 5);
            for (int64_t s = 0; s < 4; ++s) {
                Operand k = Operand(DType::kF32, lengths[static_cast<size_t>(s)], kv.width()).randomize(7);
                Operand v = Operand(DType::kF32, k.rows(), kv.width()).randomize(8);
                for (int64_t t = 0; t < 2; ++t) kv.table.at<int64_t>(s, t) = kv.table.at<int64_t>(0, t);
                append_all(prefill, kv, s, k, v);
            }
            Operand fresh = Operand(DType::kF32, rows, kv.width()).randomize(3);
            stage_all(m, kv.view(), fresh.tensor(), fresh.tensor());
            Operand q =
                Operand(DType::kF32, rows, static_cast<int64_t>(c.kv_of_head.size()) * c.head_dim).randomize(4, 2);
            Operand heads = Operand::ids(c.kv_of_head), alone(DType::kF32, rows, q.cols()),
                    together(DType::kF32, rows, q.cols());
            RowSet set(rows), one(rows);
            for (int64_t r = 0; r < rows; ++r) {
                std::vector<int32_t> path = {static_cast<int32_t>(r)};
                if (r % 2 == 1) path.insert(path.begin(), static_cast<int32_t>(r - 1));
                set.set(r, r / 2, lengths[static_cast<size_t>(r / 2)], path);
                one.set(r, 0, lengths[static_cast<size_t>(r / 2)], path);
            }
            for (const bool itself : {true, false}) {
                if (!itself) {
                    for (int64_t r = 0; r < rows; ++r) {
                        --set.slots.at<int32_t>(r, 0);
                        --one.slots.at<int32_t>(r, 0);
                    }
                }
                RowsView own = set.view(2000), common = one.view(2000);
                own.staged = common.staged = rows;
                for (int64_t r = 0; r < rows; ++r) {
                    m->attention(alone.tensor().slice_rows(r, 1), q.tensor().slice_rows(r, 1), kv.view(),
                                 heads.vector(), own.some(r, 1, 2000));
                }
                // A strict row in the slot after the shared tiles would end in them: views share one tile fewer there.
                const int64_t shared = itself ? 2 : 1;
                m->attention(together.tensor(), q.tensor(), kv.view(), heads.vector(), common, {0, shared});
                m->attention(together.tensor(), q.tensor(), kv.view(), heads.vector(), own, {shared, kEveryTile});
                m.stream->synchronize();
                for (int64_t r = 0; r < rows; ++r)
                    EXPECT_TRUE(std::ranges::equal(together.row(r), alone.row(r))) << r << " " << c.head_dim;
            }
        }
    });
}

}  // namespace
}  // namespace trireme::test
