// Attention over slots of single heads, what it reports, and the attention that each key receives from a prefill's
// rows.

#include <fmt/format.h>

#include "tests/kernels/slots_harness.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

struct Case {
    KvLayout layout;
    std::vector<int32_t> kv_of_head;
};
const Case kCases[] = {{{3, 64, DType::kF16, DType::kF16}, {0, 0, 0, 1, 1, 1, 2, 2, 2}},
                       {{2, 64, DType::kBF16, DType::kF32}, {0, 0, 1, 1, 1}},
                       {{4, 40, DType::kF32, DType::kF32}, {0, 1, 2, 3}},
                       {{1, 8, DType::kF32, DType::kF16}, {0, 0, 0}},
                       {{1, 96, DType::kF16, DType::kF16}, {0, 0}},
                       {{3, 64, DType::kQ8_0, DType::kQ8_0}, {0, 0, 0, 1, 1, 1, 2, 2, 2}}};

/// The limits of a decode forward over these cases.
constexpr KernelLimits kDecodeLimits = {.max_rows = kMaxRows, .max_k = 1, .max_n = 1, .heads = 9, .head_dim = 96};

/// RoPE angles of `positions` positions, in the form that rope() takes.
Operand angle_table(int64_t positions, int64_t head_dim) {
    Operand table(DType::kF32, positions, head_dim);
    for (int64_t p = 0; p < positions; ++p) {
        for (int64_t i = 0; i < head_dim / 2; ++i) {
            const double angle =
                static_cast<double>(p) / std::pow(1e4, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
            table.set(p, i, std::cos(angle));
            table.set(p, head_dim / 2 + i, std::sin(angle));
        }
    }
    return table;
}

/// Heads that retain tokens in random slots, followed by a chain of `rows` staged tokens.
struct Scene {
    Scene(const Case& c, const std::vector<int32_t>& kept, int64_t rows, uint32_t seed)
        : shape(c),
          cached(*std::ranges::max_element(kept)),
          slots(c.layout, 1, (cached + kTileTokens) / kTileTokens * kTileTokens, static_cast<int32_t>(cached)),
          k(DType::kF32, cached + rows, c.layout.kv_heads * c.layout.head_dim),
          v(DType::kF32, cached + rows, c.layout.kv_heads * c.layout.head_dim),
          q(DType::kF32, rows, static_cast<int64_t>(c.kv_of_head.size()) * c.layout.head_dim),
          heads(Operand::ids(c.kv_of_head)),
          counts(kept) {
        k.randomize(seed);
        v.randomize(seed + 1);
        q.randomize(seed + 2, 2);
        std::mt19937 engine(seed);
        for (int64_t h = 0; h < c.layout.kv_heads; ++h) {
            const int64_t n = counts[static_cast<size_t>(h)];
            std::vector<int32_t> at(static_cast<size_t>(n));
            std::iota(at.begin(), at.end(), 0);
            if (seed != 0) std::shuffle(at.begin(), at.end(), engine);  // seed 0: slots in token order
            slots.counts.at<int32_t>(h, 0) = static_cast<int32_t>(n);
            for (int64_t r = 0; r < n; ++r)
                slots.ranks.at<int32_t>(h, at[static_cast<size_t>(r)]) = static_cast<int32_t>(r);
            for (int64_t s = 0; s < n; ++s) put(h, s, entry(h, slots.ranks.at<int32_t>(h, s)));
        }
        Machine m(Phase::kDecode, 2, kDecodeLimits);
        stage_all(m, slots.layer(0), k.tensor().slice_rows(cached, rows), v.tensor().slice_rows(cached, rows));
    }
    /// The row of k and v of the token with this rank. Entries are right-aligned: all heads end at `cached`.
    int64_t entry(int64_t head, int64_t rank) const { return cached - counts[static_cast<size_t>(head)] + rank; }
    void put(int64_t head, int64_t slot, int64_t from) {
        const KvLayout& l = shape.layout;
        const auto head_bytes = l.k_bytes() / static_cast<size_t>(l.kv_heads);
        char* tile = reinterpret_cast<char*>(slots.tile_table.at<int64_t>(head, slot / kTileTokens));
        const auto row = [&](Operand& x, DType type) {
            return written_row(type, l.head_dim, [&](int64_t i) { return x.get(from, head * l.head_dim + i); });
        };
        const std::vector<char> key = row(k, l.k_type), value = row(v, l.v_type);
        const int64_t at = slot % kTileTokens;
        if (backend_name() == "cpu") {
            KeyBlocks(tile, l.k_type, l.head_dim).put(at, key.data());
        } else {
            std::ranges::copy(key, tile + at * std::ssize(key));
        }
        std::ranges::copy(value, tile + head_bytes + at * std::ssize(value));
    }
    /// strict: rows do not see themselves.
    RowsView rows(RowSet& set, bool strict = false) {
        std::vector<int32_t> path;
        for (int64_t r = 0; r < q.rows(); ++r) {
            path.push_back(static_cast<int32_t>(r));
            set.set(r, 0, cached, path);
            if (strict) --set.slots.at<int32_t>(r, 0);
        }
        return set.view(cached + q.rows());
    }
    /// The reference: the output of row r for the query heads of one KV head, their weights, and the tolerance.
    Rows want(int64_t r, int64_t head, Operand* angles, std::vector<std::vector<double>>* weights, double* tolerance,
              bool strict = false) {
        const KvLayout& l = shape.layout;
        const int64_t n = counts[static_cast<size_t>(head)] + r + (strict ? 0 : 1);
        Rows keys(n, l.head_dim), values(n, l.head_dim);
        const Rows ks = stored(k, l.k_type), vs = stored(v, l.v_type);
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t c = 0; c < l.head_dim; ++c) {
                keys(i, c) = ks(entry(head, i), head * l.head_dim + c);
                values(i, c) = vs(entry(head, i), head * l.head_dim + c);
            }
        }
        if (angles != nullptr) {
            Rows table(n, l.head_dim);
            for (int64_t i = 0; i < n; ++i) {
                for (int64_t c = 0; c < l.head_dim; ++c) table(i, c) = angles->get(entry(head, i), c);
            }
            keys = reference::rope(keys, table, l.head_dim);
        }
        std::vector<int32_t> mine;
        for (size_t h = 0; h < shape.kv_of_head.size(); ++h) {
            if (shape.kv_of_head[h] == head) mine.push_back(static_cast<int32_t>(h));
        }
        const auto group = static_cast<int64_t>(mine.size());
        Rows one(1, group * l.head_dim);
        if (n == 0) {  // a row without visible keys outputs zeros
            if (weights != nullptr) weights->resize(mine.size());
            return one;
        }
        for (int64_t c = 0; c < one.cols; ++c) one(0, c) = q.get(r, mine[0] * l.head_dim + c);
        if (weights != nullptr) {
            for (int64_t g = 0; g < group; ++g) {
                std::vector<double> w;
                double top = -1e300, sum = 0;
                for (int64_t i = 0; i < n; ++i) {
                    double score = 0;
                    for (int64_t c = 0; c < l.head_dim; ++c) score += one(0, g * l.head_dim + c) * keys(i, c);
                    w.push_back(score / std::sqrt(static_cast<double>(l.head_dim)));
                    top = std::max(top, w.back());
                }
                for (double& x : w) sum += x = std::exp(x - top);
                for (double& x : w) x /= sum;
                weights->push_back(w);
            }
        }
        if (tolerance != nullptr)
            *tolerance = attention_tolerance(one, keys, values, group, decode_attends_in(l.k_type, l.v_type));
        return reference::attention(one, keys, values, std::vector<int32_t>(static_cast<size_t>(group), 0));
    }

    Case shape;
    int64_t cached;
    Slots slots;
    Operand k, v, q, heads;
    std::vector<int32_t> counts;
};

std::vector<int32_t> ragged(const Case& c, int32_t n) {
    std::vector<int32_t> counts;
    for (int32_t h = 0; h < c.layout.kv_heads; ++h) counts.push_back(std::max(0, n - 130 * h));
    return counts;
}

TEST(SlotAttention, SeesEachHeadsTokens) {
    for (const Case& c : kCases) {
        for (const int32_t n : {1, 40, 256, 700}) {
            for (const int64_t rows : {1, 3}) {
                for (const auto& [rolling, strict] : {std::pair{false, false}, {true, false}, {n % 256 == 0, true}}) {
                    Scene s(c, ragged(c, n), rows, 11);
                    Operand angles = angle_table(s.cached + rows, c.layout.head_dim);
                    on_every_target([&] {
                        Machine m(Phase::kDecode, 2, kDecodeLimits);
                        RowSet set(rows);
                        Operand out(DType::kF32, rows, s.q.cols(), 3), totals(DType::kF32, rows, s.heads.rows() * 2);
                        const AttentionReport report = {
                            .totals = Tensor(totals.tensor().data(), DType::kF32, {rows, s.heads.rows(), 2})};
                        m->attention(out.tensor(), s.q.tensor(), s.slots.layer(0, rolling ? angles.tensor() : Tensor()),
                                     s.heads.vector(), s.rows(set, strict), {}, report);
                        m.stream->synchronize();
                        ASSERT_TRUE(out.intact() && totals.intact() && s.slots.intact());
                        for (int64_t r = 0; r < rows; ++r) {
                            int64_t column = 0;
                            for (int64_t h = 0; h < c.layout.kv_heads; ++h) {
                                double tolerance = 0;
                                const Rows want =
                                    s.want(r, h, rolling ? &angles : nullptr, nullptr, &tolerance, strict);
                                for (int64_t i = 0; i < want.cols; ++i) {
                                    ASSERT_NEAR(out.get(r, column + i), want(0, i), tolerance)
                                        << n << " row " << r << " head " << h << " " << i << (rolling ? " rolling" : "")
                                        << (strict ? " strict" : "");
                                }
                                column += want.cols;
                            }
                        }
                    });
                }
            }
        }
    }
}

TEST(SlotAttention, ReportsTheWeightOfEachSlot) {
    for (const Case& c : kCases) {
        for (const int32_t n : {1, 255, 256, 700}) {
            Scene s(c, ragged(c, n), 1, 5);
            Machine m(Phase::kDecode, 2, kDecodeLimits);
            RowSet set(1);
            const int64_t heads = s.heads.rows(), kv_heads = c.layout.kv_heads, width = s.cached + 1,
                          tiles = width / kTileTokens + 1;
            Operand out(DType::kF32, 1, s.q.cols()), totals(DType::kF32, 1, heads * 2),
                weights(DType::kF32, heads, width), tops(DType::kF32, heads, tiles),
                pooled(DType::kF32, kv_heads, width), shares(DType::kF32, heads, 1);
            for (int64_t h = 0; h < heads; ++h) shares.set(h, 0, 0.5);
            const AttentionReport report = {Tensor(totals.tensor().data(), DType::kF32, {1, heads, 2}),
                                            weights.tensor(), tops.tensor()};
            m->attention(out.tensor(), s.q.tensor(), s.slots.layer(0), s.heads.vector(), s.rows(set), {}, report);
            m->pool_weights(Tensor(pooled.tensor().data(), DType::kF32, {1, kv_heads, width}),
                            Tensor(weights.tensor().data(), DType::kF32, {1, heads, width}),
                            Tensor(tops.tensor().data(), DType::kF32, {1, heads, tiles}),
                            Tensor(totals.tensor().data(), DType::kF32, {1, heads, 2}), s.heads.vector(),
                            shares.vector(), {});
            m.stream->synchronize();
            ASSERT_TRUE(out.intact() && totals.intact() && weights.intact() && tops.intact() && pooled.intact());
            const double allowed = decode_attends_in(c.layout.k_type, c.layout.v_type) == DType::kQ8_0 ? 1e-4 : 1e-5;
            for (int64_t h = 0; h < kv_heads; ++h) {
                std::vector<std::vector<double>> want;
                s.want(0, h, nullptr, &want, nullptr);
                const int64_t count = s.counts[static_cast<size_t>(h)];
                for (int64_t i = 0; i <= count; ++i) {
                    const int64_t rank = i < count ? s.slots.ranks.at<int32_t>(h, i) : count;
                    double sum = 0;
                    for (const auto& w : want) sum += w[static_cast<size_t>(rank)] / 2;
                    ASSERT_NEAR(pooled.get(h, i), sum, allowed) << n << " head " << h << " slot " << i;
                }
            }
        }
    }
}

// Two layers read one owner; one of them does not see the row itself. Elements that were not written are NaN.
TEST(SlotAttention, PoolsWhatSeveralLayersGive) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (const Case& c : kCases) {
        for (const int32_t n : {1, 255, 256, 511, 700}) {
            for (const bool strict_first : {false, true}) {
                for (const HeadPool by : {HeadPool::kAdd, HeadPool::kMax}) {
                    Scene s(c, ragged(c, n), 1, 5);
                    Machine m(Phase::kDecode, 2, kDecodeLimits);
                    const int64_t heads = s.heads.rows(), kv_heads = c.layout.kv_heads, width = s.cached + 1,
                                  tiles = width / kTileTokens + 1;
                    Operand out(DType::kF32, 1, s.q.cols()), totals(DType::kF32, 1, heads * 2),
                        pooled(DType::kF32, kv_heads, width), shares(DType::kF32, heads, 1);
                    for (int64_t h = 0; h < heads; ++h) shares.set(h, 0, 0.5);
                    for (int64_t h = 0; h < kv_heads; ++h) {
                        for (int64_t i = 0; i < width; ++i) pooled.set(h, i, nan);
                    }
                    std::vector<std::vector<double>> want(static_cast<size_t>(kv_heads),
                                                          std::vector<double>(static_cast<size_t>(width), 0));
                    for (const bool second : {false, true}) {
                        const bool strict = strict_first != second;
                        Operand weights(DType::kF32, heads, width), tops(DType::kF32, heads, tiles);
                        for (int64_t h = 0; h < heads; ++h) {
                            for (int64_t i = 0; i < width; ++i) weights.set(h, i, nan);
                            for (int64_t i = 0; i < tiles; ++i) tops.set(h, i, nan);
                        }
                        s.q.randomize(second ? 71 : 72, 2);
                        RowSet set(1);
                        const Tensor told(totals.tensor().data(), DType::kF32, {1, heads, 2});
                        m->attention(out.tensor(), s.q.tensor(), s.slots.layer(0), s.heads.vector(),
                                     s.rows(set, strict), {}, {told, weights.tensor(), tops.tensor()});
                        WeightPool pool = {.by = by, .share = 0.25F, .more = second};
                        if (strict) pool.counts = s.slots.view().counts;
                        m->pool_weights(Tensor(pooled.tensor().data(), DType::kF32, {1, kv_heads, width}),
                                        Tensor(weights.tensor().data(), DType::kF32, {1, heads, width}),
                                        Tensor(tops.tensor().data(), DType::kF32, {1, heads, tiles}), told,
                                        s.heads.vector(), shares.vector(), pool);
                        m.stream->synchronize();
                        ASSERT_TRUE(weights.intact() && tops.intact() && pooled.intact());
                        for (int64_t h = 0; h < kv_heads; ++h) {
                            std::vector<std::vector<double>> given;
                            s.want(0, h, nullptr, &given, nullptr, strict);
                            const int64_t count = s.counts[static_cast<size_t>(h)];
                            for (int64_t i = 0; i < count + (strict ? 0 : 1); ++i) {
                                const int64_t rank = i < count ? s.slots.ranks.at<int32_t>(h, i) : count;
                                double& to = want[static_cast<size_t>(h)][static_cast<size_t>(i)];
                                for (const auto& w : given) {
                                    const double x = w[static_cast<size_t>(rank)] / 8;
                                    to = by == HeadPool::kAdd ? to + x : std::max(to, x);
                                }
                            }
                        }
                    }
                    for (int64_t h = 0; h < kv_heads; ++h) {
                        for (int64_t i = 0; i <= s.counts[static_cast<size_t>(h)]; ++i) {
                            ASSERT_NEAR(pooled.get(h, i), want[static_cast<size_t>(h)][static_cast<size_t>(i)], 1e-5)
                                << n << " head " << h << " slot " << i << (strict_first ? " strict first" : "");
                        }
                    }
                }
            }
        }
    }
}

TEST(SlotAttention, PoolsNothingOfHeadsThatSayTooMuch) {
    Scene s(kCases[0], ragged(kCases[0], 300), 1, 5);
    const int64_t heads = s.heads.rows(), kv_heads = 3;
    Operand pooled(DType::kF32, kv_heads, 300), weights(DType::kF32, heads, 300), shares(DType::kF32, heads, 1);
    for (const int32_t count : {-1, 301}) {
        Machine m(Phase::kDecode, 2, kDecodeLimits);
        s.slots.counts.at<int32_t>(1, 0) = count;
        EXPECT_TRUE(refused(
            [&] {
                m->pool_weights(Tensor(pooled.tensor().data(), DType::kF32, {1, kv_heads, 300}),
                                Tensor(weights.tensor().data(), DType::kF32, {1, heads, 300}), {}, {}, s.heads.vector(),
                                shares.vector(), {.counts = s.slots.view().counts});
                m.stream->synchronize();
            },
            fmt::format("pool_weights: a head has {} tokens where 300 may be", count)));
    }
}

TEST(SlotAttention, RefusesHeadsThatContradictTheRows) {
    const Case& c = kCases[0];
    Scene s(c, ragged(c, 300), 1, 5);
    Operand few = angle_table(s.cached, c.layout.head_dim);
    const auto refuses = [&](int32_t count, const Tensor& angles, const std::string& words) {
        Machine m(Phase::kDecode, 2, kDecodeLimits);
        RowSet set(1);
        Operand out(DType::kF32, 1, s.q.cols());
        s.slots.counts.at<int32_t>(1, 0) = count;
        return refused(
            [&] {
                m->attention(out.tensor(), s.q.tensor(), s.slots.layer(0, angles), s.heads.vector(), s.rows(set));
                m.stream->synchronize();
            },
            words);
    };
    EXPECT_TRUE(refuses(301, {}, "attention: a head has 301 tokens where 300 may be"));
    EXPECT_TRUE(refuses(-1, {}, "attention: a head has -1 tokens where 300 may be"));
    EXPECT_TRUE(refuses(170, few.tensor(), "attention: a key stands at 300, there are angles for 300"));
    if (!emulated()) return;  // the CPU does not check ranks
    Operand enough = angle_table(s.cached + 1, c.layout.head_dim);
    for (const int32_t rank : {-1, 170}) {
        s.slots.ranks.at<int32_t>(1, 169) = rank;
        EXPECT_TRUE(refuses(170, enough.tensor(), fmt::format("attention: a slot has rank {} of 170", rank)));
    }
}

// Slots in token order are tiles: the same bits as plain attention, whether keys are rotated before or when read.
TEST(SlotAttention, HasTheBitsOfPlainAttention) {
    const Case c = {{3, 64, DType::kF32, DType::kF32}, {0, 0, 0, 1, 1, 1, 2, 2, 2}};
    const int64_t n = 700, rows = 3;
    Scene s(c, std::vector<int32_t>(3, n), rows, 0);
    Operand angles = angle_table(n + rows, 64), rotated(DType::kF32, n + rows, s.k.cols());
    for (int64_t r = 0; r < n + rows; ++r) {
        for (int64_t i = 0; i < s.k.cols(); ++i) rotated.set(r, i, s.k.get(r, i));
    }
    on_every_target([&] {
        for (const bool rolling : {false, true}) {
            Machine m, prefill(Phase::kPrefill);
            Kv plain(c.layout, 1, 3);
            Operand turned = rotated;
            if (rolling) {
                m->rope(turned.tensor(), angles.tensor(), 64);
                m.stream->synchronize();
            }
            RowSet all(n), set(rows);
            for (int64_t r = 0; r < n; ++r) all.set(r, 0, r, {0});
            prefill->kv_append(plain.view(), turned.tensor().slice_rows(0, n), s.v.tensor().slice_rows(0, n),
                               all.view(n));
            prefill.stream->synchronize();
            stage_all(m, plain.view(), turned.tensor().slice_rows(n, rows), s.v.tensor().slice_rows(n, rows));
            Operand want(DType::kF32, rows, s.q.cols()), got(DType::kF32, rows, s.q.cols());
            const RowsView view = s.rows(set);
            m->attention(want.tensor(), s.q.tensor(), plain.view(), s.heads.vector(), view);
            m->attention(got.tensor(), s.q.tensor(), s.slots.layer(0, rolling ? angles.tensor() : Tensor()),
                         s.heads.vector(), view);
            m.stream->synchronize();
            EXPECT_EQ(got.floats(), want.floats()) << (rolling ? "rolling" : "");
        }
    });
}

/// A prompt's rows after `first` entries in tiles, and the attention that each entry receives from them.
struct Prompt {
    Prompt(const Case& c, int64_t entries, int64_t n_rows, uint32_t seed)
        : shape(c),
          rows(n_rows),
          first(entries - n_rows),
          at(c.layout, entries, seed),
          q(DType::kF32, rows, static_cast<int64_t>(c.kv_of_head.size()) * c.layout.head_dim),
          heads(Operand::ids(c.kv_of_head)),
          begins(DType::kI32, c.layout.kv_heads, 1),
          angles(angle_table(entries, c.layout.head_dim)) {
        at.append(0);
        q.randomize(seed + 5, 2);
        for (int64_t h = 0; h < c.layout.kv_heads; ++h)
            begins.at<int32_t>(h, 0) =
                static_cast<int32_t>(first - first * h / c.layout.kv_heads - (h == 0 ? first : 0));
    }
    /// Runs attention in batches of `batch` rows, sums the weights of all batches, and compares both with f64. strict:
    /// rows do not see themselves, and the first row sees no key of a head that begins with it.
    void check(int64_t batch, bool rolling, bool begun, bool strict = false) {
        const KvLayout& l = shape.layout;
        const int64_t n = heads.rows(), entries = first + rows;
        Machine m(Phase::kPrefill);
        LayerKv kv = at.kv.view();
        if (rolling) kv.angles = angles.tensor();
        if (begun) kv.begins = begins.vector();
        const int32_t last_begin = begins.at<int32_t>(l.kv_heads - 1, 0);
        if (strict) begins.at<int32_t>(l.kv_heads - 1, 0) = static_cast<int32_t>(first);
        Operand out(DType::kF32, rows, q.cols()), sums(DType::kF32, n, entries, 32), totals(DType::kF32, rows, n * 2);
        for (int64_t h = 0; h < n; ++h) {
            for (int64_t e = 0; e < entries; ++e) sums.set(h, e, 0);
        }
        std::vector<std::unique_ptr<RowSet>> sets;
        for (int64_t r = 0; r < rows; r += batch) {
            const int64_t count = std::min(batch, rows - r);
            RowSet& set = *sets.emplace_back(std::make_unique<RowSet>(count));
            for (int64_t i = 0; i < count; ++i) {
                set.set(i, 0, first + r + i, {0});
                if (strict) --set.slots.at<int32_t>(i, 0);
            }
            const RowsView view = set.view(first + r + count);
            const Tensor told(static_cast<float*>(totals.tensor().data()) + r * n * 2, DType::kF32, {count, n, 2});
            m->attention(out.tensor().slice_rows(r, count), q.tensor().slice_rows(r, count), kv, heads.vector(), view,
                         {}, {.totals = told});
            m->key_weights(sums.tensor(), q.tensor().slice_rows(r, count), told, kv, heads.vector(), view);
        }
        m.stream->synchronize();
        ASSERT_TRUE(out.intact() && sums.intact() && totals.intact());
        const Rows keys = stored(at.k, l.k_type), values = stored(at.v, l.v_type);
        const DType inputs = attended_in(l.k_type, l.v_type);
        for (int64_t h = 0; h < n; ++h) {
            const int64_t head = shape.kv_of_head[static_cast<size_t>(h)];
            const int64_t begin = begun ? begins.at<int32_t>(head, 0) : 0;
            Rows mine(entries - begin, l.head_dim), of(entries - begin, l.head_dim);
            for (int64_t e = begin; e < entries; ++e) {
                for (int64_t c = 0; c < l.head_dim; ++c) {
                    mine(e - begin, c) = keys(e, head * l.head_dim + c);
                    of(e - begin, c) = values(e, head * l.head_dim + c);
                }
            }
            if (rolling) {
                Rows table(entries - begin, l.head_dim);
                for (int64_t e = begin; e < entries; ++e) {
                    for (int64_t c = 0; c < l.head_dim; ++c) table(e - begin, c) = angles.get(e, c);
                }
                mine = reference::rope(mine, table, l.head_dim);
            }
            std::vector<double> want(static_cast<size_t>(entries), 0);
            double worst = 0;
            for (int64_t r = 0; r < rows; ++r) {
                const int64_t seen = first + r + (strict ? 0 : 1) - begin;
                std::vector<double> w(static_cast<size_t>(seen));
                double top = -1e300, sum = 0;
                for (int64_t e = 0; e < seen; ++e) {
                    double score = 0;
                    for (int64_t c = 0; c < l.head_dim; ++c) score += q.get(r, h * l.head_dim + c) * mine(e, c);
                    w[static_cast<size_t>(e)] = score / std::sqrt(static_cast<double>(l.head_dim));
                    top = std::max(top, w[static_cast<size_t>(e)]);
                }
                for (double& x : w) sum += x = std::exp(x - top);
                for (int64_t e = 0; e < seen; ++e)
                    want[static_cast<size_t>(begin + e)] += w[static_cast<size_t>(e)] / sum;
                for (int64_t c = 0; c < l.head_dim && r % 37 == 0; ++c) {
                    double mean = 0;
                    for (int64_t e = 0; e < seen; ++e) mean += w[static_cast<size_t>(e)] / sum * of(e, c);
                    worst = std::max(worst, std::fabs(mean - out.get(r, h * l.head_dim + c)));
                }
            }
            Rows queries(rows, l.head_dim);
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < l.head_dim; ++c) queries(r, c) = q.get(r, h * l.head_dim + c);
            }
            EXPECT_LE(worst, attention_tolerance(queries, mine, of, 1, inputs)) << "head " << h;
            // A score is off by eps |q| |k|, or by half a step of each of its factors if they are rounded.
            const double norms = row_norm(queries) * row_norm(mine), step = inputs == DType::kF32 ? 0 : eps_of(inputs);
            const double relative = 4 * kEps * norms + step * norms / std::sqrt(static_cast<double>(l.head_dim)) + 1e-5;
            double total = 0;
            for (int64_t e = 0; e < entries; ++e) {
                ASSERT_NEAR(sums.get(h, e), want[static_cast<size_t>(e)],
                            relative * (want[static_cast<size_t>(e)] + 1e-3))
                    << "head " << h << " entry " << e << " of " << entries << (rolling ? " rolling" : "")
                    << (begun ? " begun" : "");
                total += sums.get(h, e);
            }
            const auto seeing = static_cast<double>(rows - (strict && begin == first ? 1 : 0));
            EXPECT_NEAR(total, seeing, relative * static_cast<double>(rows)) << "a query gives 1 in all";
        }
        begins.at<int32_t>(l.kv_heads - 1, 0) = last_begin;
    }

    Case shape;
    int64_t rows, first;
    Entries at;
    Operand q, heads, begins, angles;
};

TEST(KeyWeights, AreTheColumnsOfAttention) {
    for (const Case& c : kCases) {
        on_every_target([&] {
            for (const auto& [entries, rows] : {std::pair<int64_t, int64_t>{1, 1}, {300, 300}, {560, 70}}) {
                if (emulated() && entries > 300 && c.layout.kv_heads > 2) continue;
                if (kSanitized && entries == 300 && &c != kCases) continue;
                Prompt p(c, entries, rows, 7);
                for (const bool rolling : {false, true}) {
                    p.check(128, rolling, false);
                    if (entries > rows) p.check(512, rolling, true);
                }
                p.check(128, false, entries > rows, /*strict=*/true);
            }
        });
    }
}

TEST(KeyWeights, NeedHeadsThatSeeEveryRow) {
    for (const Case& c : {kCases[0], kCases[2]}) {
        Prompt p(c, 40, 30, 3);
        const auto refuses = [&](int32_t begin, int64_t positions, const std::string& words) {
            Machine m(Phase::kPrefill);
            RowSet set(30);
            for (int64_t i = 0; i < 30; ++i) set.set(i, 0, 10 + i, {0});
            Operand out(DType::kF32, 30, p.q.cols());
            p.begins.at<int32_t>(1, 0) = begin;
            LayerKv kv = p.at.kv.view();
            kv.begins = p.begins.vector();
            kv.angles = p.angles.tensor().first_rows(positions);
            return refused(
                [&] {
                    m->attention(out.tensor(), p.q.tensor(), kv, p.heads.vector(), set.view(40));
                    m.stream->synchronize();
                },
                words);
        };
        EXPECT_TRUE(refuses(12, 40, "its head begins at slot 12"));
        EXPECT_TRUE(refuses(-1, 40, "its head begins at slot -1"));
        EXPECT_TRUE(refuses(0, 39, "there are angles for 39"));
    }
}

TEST(KeyWeights, HaveTheSameBitsForAnyThreads) {
    const Case& c = kCases[0];
    Prompt p(c, 700, 512, 3);
    std::vector<float> first;
    for (const int threads : thread_counts()) {
        Machine m(Phase::kPrefill, threads);
        RowSet set(512);
        for (int64_t i = 0; i < 512; ++i) set.set(i, 0, 188 + i, {0});
        Operand out(DType::kF32, 512, p.q.cols()), sums(DType::kF32, 9, 700), totals(DType::kF32, 512, 18);
        for (int64_t h = 0; h < 9; ++h) {
            for (int64_t e = 0; e < 700; ++e) sums.set(h, e, 0);
        }
        const Tensor told(totals.tensor().data(), DType::kF32, {512, 9, 2});
        m->attention(out.tensor(), p.q.tensor(), p.at.kv.view(), p.heads.vector(), set.view(700), {}, {.totals = told});
        m->key_weights(sums.tensor(), p.q.tensor(), told, p.at.kv.view(), p.heads.vector(), set.view(700));
        m.stream->synchronize();
        if (first.empty()) first = sums.floats();
        EXPECT_EQ(sums.floats(), first) << threads;
    }
}

}  // namespace
}  // namespace trireme::test
