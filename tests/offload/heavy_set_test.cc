// Compares a HeavySet with a EvictingCache of policy h2o that receives, token by token, the same queries, keys and
// values. Tokens, ranks and scores are bitwise identical, wherever the full cache's tiles are stored and whichever rows
// are rejected.

#include "offload/evicting/heavy_set.h"

#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/key_order.h"
#include "offload/evicting/evicting_cache.h"
#include "runtime/cpu/device.h"
#include "runtime/error.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

constexpr int64_t kOwners = 3, kKvHeads = 2, kDim = 8, kContext = 1024, kBatch = 300;

KvShape kv_shape(DType type) {
    return {.layout = {.kv_heads = kKvHeads, .head_dim = kDim, .k_type = type, .v_type = type},
            .owner_layers = kOwners,
            .sequences = 1,
            .context = kContext};
}

/// A layer: the owner that it reads, and the one whose keys and values it writes; -1: none.
struct Layer {
    int64_t reads, writes;
    bool strict = false;
};
/// Layers over three owners; layers [first, end) are iterated. `places`: by owner, where a prompt's keys and values are
/// stored.
struct Layers {
    std::vector<Layer> all = {{0, 0}, {1, 1}, {2, 2}};
    size_t first = 0, end = 0;
    std::vector<int64_t> places = {0, 0, 0};
};
const Layers kSharing[] = {{{{0, 0}, {0, -1}, {1, 1}, {1, -1}, {1, -1}, {2, 2}}},                         // 0_0_2_2_2_5
                           {{{0, 0}, {1, -1, true}, {1, -1, true}, {1, 1}, {2, 2}}, 1, 4},                // 0_3_3_3_4
                           {{{1, 0, true}, {2, 1, true}, {0, 2}}, 0, 3, {0, 1, 2}},                       // 1_2_0
                           {{{0, 0}, {2, 1, true}, {1, -1}, {0, 2}, {2, -1}, {1, -1}}, 1, 4, {0, 1, 2}},  // 0_3_1_0_3_1
                           {{{0, 0, true}, {1, 1, true}, {2, 2, true}, {2, -1, true}}}};  // force_nodiag

struct Case {
    std::vector<bool> on_chip = {true, true, true};
    EvictionShape shape = {.policy = KvPolicy::kH2o, .budget = 40, .heavy = 25, .returns = true};
    int64_t heads = 4;
    DType type = DType::kF16;
    Layers layers = {};
};

constexpr int64_t kPasses = 3;  // passes of the full cache's forwards over iterated layers

/// The owner that each attention of such a forward reads.
std::vector<OwnerIndex> reads_of(const Layers& layers) {
    std::vector<OwnerIndex> all;
    for (size_t l = 0; l < layers.all.size(); ++l) {
        for (int64_t p = 1; l == layers.first && p < kPasses; ++p) {
            for (size_t i = layers.first; i + 1 < layers.end; ++i) all.emplace_back(layers.all[i].reads);
        }
        all.emplace_back(layers.all[l].reads);
    }
    return all;
}

KvReaders readers_of(const Case& c) {
    std::vector<KvReader> readers;
    for (const Layer& l : c.layers.all) readers.push_back({.owner = OwnerIndex(l.reads), .strict = l.strict});
    return {c.heads, readers, c.layers.places};
}

EvictingModel model_of(const Case& c) {
    const int64_t group = c.heads / kKvHeads;
    EvictingModel m = {
        .readers = readers_of(c), .kv_of_head = {}, .shares = {}, .angles = {}, .turn = {}, .exchange = {}};
    m.pool = c.shape.heads == HeadsBy::kMax ? HeadPool::kMax : HeadPool::kAdd;
    for (int64_t h = 0; h < c.heads; ++h) {
        m.kv_of_head.push_back(static_cast<int32_t>(h / group));
        m.shares.push_back(c.shape.heads == HeadsBy::kMean    ? 1.0F / static_cast<float>(group)
                           : c.shape.heads == HeadsBy::kFirst ? (h % group == 0 ? 1.0F : 0.0F)
                                                              : 1.0F);
    }
    return m;
}

/// Queries of a layer, and keys and values of an owner, for tokens or for proposed tokens: the same name gives the same
/// numbers.
class Rows {
  public:
    Rows(int64_t layer, int64_t owner, int64_t heads, std::vector<int64_t> names) {
        const auto n = static_cast<int64_t>(names.size());
        for (const auto& [to, width] : {std::pair{&q_, heads * kDim}, {&k_, kKvHeads * kDim}, {&v_, kKvHeads * kDim}}) {
            to->resize(static_cast<size_t>(n * width));
            size_t at = 0;
            for (const int64_t name : names) {
                const int64_t of = (to == &q_ ? layer : owner) * 7919;
                std::minstd_rand random(static_cast<uint32_t>(name * 31 + of + width + (to == &v_ ? 5 : 1)));
                random.discard(3);
                for (int64_t i = 0; i < width; ++i) {
                    (*to)[at++] = static_cast<float>(random() % 2001) / 500.0F - 2.0F;
                }
            }
        }
        out_.resize(q_.size());
    }
    static Tensor tensor(std::vector<float>& x, int64_t rows) {
        return Tensor(x.data(), DType::kF32, {rows, static_cast<int64_t>(x.size()) / rows});
    }
    std::vector<float> q_, k_, v_, out_;
};

/// Writes and attends a cache as a level would. Calls block until done.
class Hand {
  public:
    Hand(const Case& c, KvCache& cache, Device& device, Stream& stream) : case_(c), cache_(cache), stream_(stream) {
        const KernelLimits limits = {
            .max_rows = kPrefillRows, .max_k = 0, .max_n = 0, .heads = c.heads, .head_dim = kDim};
        prefill_op_ = make_kernels(device, stream, Phase::kPrefill, limits);
        decode_op_ = make_kernels(device, stream, Phase::kDecode, limits);
    }

    /// Iterated layers take two passes, the first with other queries, keys and values.
    void prefill(int64_t n) {
        const auto& [all, first, end, places] = case_.layers;
        cache_.begin_prefill(0, n);
        for (size_t l = 0; l < all.size(); ++l) {
            if (l == first && end > first) {
                cache_.set_provisional(true);
                for (size_t i = first; i < end; ++i) pass(i, n, kStale, i + 1 == end);
                cache_.set_provisional(false);
            }
            pass(l, n, 0, /*only_writes=*/false);
        }
        cache_.end();
        stream_.synchronize();
    }
    /// Runs one forward of a chain of these rows and keeps `path`: the other rows are siblings of its rows. `passes`
    /// over iterated layers: the last one has the right queries, keys and values.
    void step(const std::vector<int64_t>& names, const std::vector<int32_t>& path, int64_t passes = 1) {
        const int64_t at = cache_.cached(0);
        std::vector<int32_t> slots, cached(names.size(), static_cast<int32_t>(at)), ancestors(names.size() * kMaxRows);
        std::vector<int32_t> trunk;
        for (size_t r = 0; r < names.size(); ++r) {
            const int32_t row = cache_.stage(0, trunk.empty() ? -1 : trunk.back());
            slots.push_back(static_cast<int32_t>(at) + static_cast<int32_t>(trunk.size()));
            std::copy(trunk.begin(), trunk.end(), ancestors.begin() + static_cast<std::ptrdiff_t>(r * kMaxRows));
            ancestors[r * kMaxRows + trunk.size()] = row;
            if (std::ranges::find(path, row) != path.end()) trunk.push_back(row);
        }
        const auto n = static_cast<int64_t>(names.size());
        const RowGroup group = {.sequence = 0, .first = 0, .rows = n, .bound = at + n};
        cache_.begin(std::span(&group, 1));
        const auto& [all, first, end, places] = case_.layers;
        const auto layer = [&](size_t l, int64_t offset, bool only_writes) {
            std::vector<int64_t> named = names;
            for (int64_t& name : named) name += offset;
            if (all[l].writes >= 0) write(*decode_op_, l, named, slots, cached, ancestors, at + n);
            if (!only_writes) attend(*decode_op_, l, named, slots, cached, ancestors, at + n);
        };
        for (size_t l = 0; l < all.size(); ++l) {
            for (int64_t p = 1; l == first && p < passes; ++p) {
                for (size_t i = first; i < end; ++i) layer(i, kStale * p, i + 1 == end);
            }
            layer(l, 0, false);
        }
        cache_.end();
        cache_.keep(*decode_op_, 0, path);
        stream_.synchronize();
    }

  private:
    static constexpr int64_t kStale = 500000;  // added to names in passes that are repeated

    /// Prefills a layer like Prefill::run_layer().
    void pass(size_t l, int64_t n, int64_t offset, bool only_writes) {
        const Layer& layer = case_.layers.all[l];
        const bool own = layer.reads == layer.writes;
        const auto batches = [&](OwnerIndex owner, KvCache::Pass how, bool writes, bool reads) {
            cache_.begin_layer(owner, how);
            for (int64_t done = 0; done < n; done += kBatch) {
                std::vector<int64_t> names;
                std::vector<int32_t> slots;
                for (int64_t t = done; t < std::min(n, done + kBatch); ++t) {
                    names.push_back(t + offset);
                    slots.push_back(static_cast<int32_t>(t));
                }
                const int64_t bound = done + static_cast<int64_t>(names.size());
                if (writes) write(*prefill_op_, l, names, slots, {}, {}, bound);
                if (reads) attend(*prefill_op_, l, names, slots, {}, {}, bound);
            }
        };
        if (layer.writes >= 0 && (!own || only_writes)) {
            batches(OwnerIndex(layer.writes), KvCache::Pass::kWrites, true, false);
        }
        if (only_writes) return;
        batches(OwnerIndex(layer.reads), own ? KvCache::Pass::kWrites : KvCache::Pass::kReads, own, true);
    }
    static Tensor ids(std::vector<int32_t>& x, const Shape& shape) { return Tensor(x.data(), DType::kI32, shape); }
    static RowsView rows_of(std::vector<int32_t>& slots, std::vector<int32_t>& zeros, std::vector<int32_t>& cached,
                            std::vector<int32_t>& ancestors, int64_t bound) {
        const auto n = static_cast<int64_t>(slots.size());
        RowsView rows = {
            .slots = ids(slots, {n}), .sequences = ids(zeros, {n}), .cached = {}, .ancestors = {}, .max_slots = bound};
        if (!cached.empty()) rows.cached = ids(cached, {n});
        if (!cached.empty()) rows.ancestors = ids(ancestors, {n, kMaxRows});
        return rows;
    }
    void write(Kernels& op, size_t l, const std::vector<int64_t>& names, std::vector<int32_t> slots,
               std::vector<int32_t> cached, std::vector<int32_t> ancestors, int64_t bound) {
        const auto n = static_cast<int64_t>(names.size());
        const int64_t owner = case_.layers.all[l].writes;
        Rows r(static_cast<int64_t>(l), owner, case_.heads, names);
        std::vector<int32_t> zeros(names.size());
        cache_.write(op, OwnerIndex(owner), Rows::tensor(r.k_, n), Rows::tensor(r.v_, n),
                     rows_of(slots, zeros, cached, ancestors, bound));
        stream_.synchronize();
    }
    void attend(Kernels& op, size_t l, const std::vector<int64_t>& names, std::vector<int32_t> slots,
                std::vector<int32_t> cached, std::vector<int32_t> ancestors, int64_t bound) {
        const auto n = static_cast<int64_t>(names.size());
        const Layer& layer = case_.layers.all[l];
        Rows r(static_cast<int64_t>(l), layer.reads, case_.heads, names);
        std::vector<int32_t> zeros(names.size());
        for (int32_t& slot : slots) slot -= layer.strict ? 1 : 0;
        cache_.attend(op, OwnerIndex(layer.reads),
                      {Rows::tensor(r.out_, n), Rows::tensor(r.q_, n), ids(heads_, {case_.heads}),
                       rows_of(slots, zeros, cached, ancestors, bound), LayerIndex(static_cast<int64_t>(l))});
        stream_.synchronize();
    }

    const Case& case_;
    KvCache& cache_;
    Stream& stream_;
    std::vector<int32_t> heads_ = model_of(case_).kv_of_head;
    std::unique_ptr<Kernels> prefill_op_, decode_op_;
};

/// A HeavySet and a EvictingCache over the same sequence.
class Pair {
  public:
    explicit Pair(const Case& c)
        : case_(c),
          full_(device_, *stream_, kv_shape(c.type), {.on_chip = c.on_chip, .span_bytes = 1, .by_layers = true},
                reads_of(c.layers)),
          set_(device_, *stream_, full_, c.shape, model_of(c)),
          bounded_(device_, *stream_, kv_shape(c.type), c.shape, model_of(c)),
          by_full_(case_, full_, device_, *stream_),
          by_bounded_(case_, bounded_, device_, *stream_) {}

    void prefill(int64_t n) {
        for (KvCache* cache : {static_cast<KvCache*>(&full_), static_cast<KvCache*>(&bounded_)}) cache->truncate(0, 0);
        by_full_.prefill(n);
        by_bounded_.prefill(n);
        set_.taken_over();
        set_.begin_reading(*stream_);
        expect_same("a prompt", n);
    }
    /// Runs a forward that keeps n tokens, with `refused` rejected rows in front of each.
    void round(int64_t n, int64_t refused) {
        const int64_t text = full_.length(0);
        std::vector<int64_t> names;
        std::vector<int32_t> path;
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t j = 0; j < refused; ++j) names.push_back(100000 + text * 100 + i * 10 + j);
            path.push_back(static_cast<int32_t>(names.size()));
            names.push_back(text + i);
        }
        by_full_.step(names, path, kPasses);
        for (int64_t i = 0; i < n; ++i) by_bounded_.step({text + i}, {0});
        expect_same("a round", text + n);
    }
    void back_to(int64_t prompt) {
        full_.truncate(0, prompt);
        bounded_.truncate(0, prompt);
        stream_->synchronize();
        set_.taken_over();
        set_.begin_reading(*stream_);
        expect_same("the prompt again", prompt);
    }
    HeavySet& set() { return set_; }
    Stream& stream() { return *stream_; }
    FullCache& full() { return full_; }
    Hand& by_full() { return by_full_; }

  private:
    void expect_same(const char* what, int64_t tokens) {
        const SlotKv &a = set_.slots_kv(), &b = *bounded_.retained();
        ASSERT_EQ(set_.tokens(), tokens) << what;
        ASSERT_EQ(set_.slots(), bounded_.cached(0)) << what;
        for (int64_t at = 0; at < kOwners * kKvHeads; ++at) {
            const int32_t count = static_cast<const int32_t*>(a.counts.data())[at];
            ASSERT_EQ(count, static_cast<const int32_t*>(b.counts.data())[at]) << what;
            ASSERT_EQ(count, std::min(tokens, case_.shape.budget)) << what;
            for (int32_t s = 0; s < count; ++s) {
                const int64_t i = at * a.slots() + s;
                const auto same = [&](const Tensor& x, const Tensor& y) {
                    return static_cast<const int32_t*>(x.data())[i] == static_cast<const int32_t*>(y.data())[i];
                };
                ASSERT_TRUE(same(a.tokens, b.tokens)) << what << " at " << tokens << ", head " << at << " slot " << s;
                ASSERT_TRUE(same(a.ranks, b.ranks)) << what << " at " << tokens << ", head " << at << " slot " << s;
                ASSERT_TRUE(same(a.scores, b.scores)) << what << " at " << tokens << ", head " << at << " slot " << s;
            }
            for (int32_t s = 0; s < count; ++s) ASSERT_TRUE(same_row(a, b, at, s)) << what << " slot " << s;
        }
    }
    /// True if the keys and values of a slot are equal.
    static bool same_row(const SlotKv& a, const SlotKv& b, int64_t at, int64_t slot) {
        const int64_t dim = a.layout.head_dim, i = slot % kTileTokens;
        const size_t row = static_cast<size_t>(dim) * size_of(a.layout.k_type);
        const auto key_and_value = [&](const SlotKv& kv) {
            const int64_t tile =
                static_cast<const int64_t*>(kv.tiles.data())[at * kv.tiles.dim(2) + slot / kTileTokens];
            auto* memory = reinterpret_cast<char*>(tile);
            std::string both(2 * row, '\0');
            KeyBlocks(memory, kv.layout.k_type, dim).get(i, both.data(), 0, dim);
            std::memcpy(both.data() + row, memory + (kTileTokens + static_cast<size_t>(i)) * row, row);
            return both;
        };
        return key_and_value(a) == key_and_value(b);
    }

    Case case_;
    CpuDevice device_{1};
    std::unique_ptr<Stream> stream_ = device_.make_stream("compute");
    FullCache full_;
    HeavySet set_;
    EvictingCache bounded_;
    Hand by_full_, by_bounded_;
};

void follow(const Case& c, int64_t prompt) {
    Pair pair(c);
    pair.prefill(prompt);
    for (int sample = 0; sample < 2; ++sample) {
        for (const auto& [n, refused] :
             std::vector<std::pair<int64_t, int64_t>>{{1, 0}, {4, 0}, {3, 2}, {1, 5}, {9, 1}, {1, 0}}) {
            pair.round(n, refused);
            if (testing::Test::HasFatalFailure()) return;
        }
        pair.back_to(prompt);
        if (testing::Test::HasFatalFailure()) return;
    }
    pair.prefill(prompt / 2 + 1);  // another prompt in its place
    pair.round(5, 1);
}

const std::vector<std::vector<bool>> kResidencies = {{true, true, true}, {false, true, false}, {false, false, false}};

TEST(HeavySet, KeepsWhatH2oWouldKeepOfTheSameText) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        for (const int64_t prompt : {1, 30, 256, 700}) {
            for (const HeadsBy heads : {HeadsBy::kFirst, HeadsBy::kMean, HeadsBy::kSum, HeadsBy::kMax}) {
                if (kSanitized && (heads != HeadsBy::kMean || prompt > 256)) continue;
                Case c = {.on_chip = on_chip};
                c.shape.heads = heads;
                follow(c, prompt);
                ASSERT_FALSE(HasFatalFailure()) << prompt << ", heads by " << static_cast<int>(heads);
            }
        }
    }
}

TEST(HeavySet, ScoresAsTheFlagsSay) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (const int64_t tokens : {2, 40, 300}) {
            Case c = {.on_chip = {true, false, true}, .type = type};
            c.shape = {.policy = KvPolicy::kH2o, .budget = tokens, .heavy = tokens / 2, .returns = true};
            c.shape.sinks = tokens > 2 ? 3 : 0;
            c.shape.half_scores = type == DType::kF16;
            c.shape.per_query = type == DType::kF32;
            c.shape.decay = type == DType::kBF16 ? 0.9F : 1.0F;
            follow(c, 420);
            ASSERT_FALSE(HasFatalFailure()) << tokens << " tokens, " << name_of(type);
        }
    }
}

// All layers that read an owner count, each in its last pass; with HeadsBy::kFirst only the first query head does.
TEST(HeavySet, KeepsWhatAllReadersGive) {
    for (const Layers& layers : kSharing) {
        for (const std::vector<bool>& on_chip : kResidencies) {
            for (const int64_t prompt : {1, 40, 700}) {
                for (const HeadsBy heads : {HeadsBy::kFirst, HeadsBy::kMean, HeadsBy::kSum, HeadsBy::kMax}) {
                    if (kSanitized && (heads != HeadsBy::kMean || prompt != 40)) continue;
                    Case c = {.on_chip = on_chip, .layers = layers};
                    c.shape.heads = heads;
                    follow(c, prompt);
                    ASSERT_FALSE(HasFatalFailure())
                        << prompt << ", heads by " << static_cast<int>(heads) << ", " << layers.all.size() << " layers";
                }
            }
        }
    }
}

// More query heads than one attention call takes: the last call has fewer owners.
TEST(HeavySet, OfManyHeadsStepsSomeOwnersAtOnce) {
    Case c;
    c.heads = 200;
    ASSERT_EQ(HeavySet::step_limits(kv_shape(c.type), c.heads).heads, 400);
    follow(c, 90);
    c.layers = kSharing[0];
    follow(c, 90);
}

/// Scores by token of one KV head.
std::map<int32_t, float> scores_of(const HeavySet& set, int64_t head) {
    const SlotKv& kv = set.slots_kv();
    std::map<int32_t, float> scores;
    for (int64_t s = 0; s < static_cast<const int32_t*>(kv.counts.data())[head]; ++s) {
        const int64_t i = head * kv.slots() + s;
        scores[static_cast<const int32_t*>(kv.tokens.data())[i]] = static_cast<const float*>(kv.scores.data())[i];
    }
    return scores;
}

// New tokens take slots with a score of 0, and no attention changes the score of another token.
TEST(HeavySet, FollowsWithoutAttentionWhileNoReaderReads) {
    Pair pair({});
    pair.prefill(60);
    pair.round(3, 1);
    pair.set().taken_over();
    std::vector<std::map<int32_t, float>> before;
    for (int64_t head = 0; head < kOwners * kKvHeads; ++head) before.push_back(scores_of(pair.set(), head));
    pair.by_full().step({63, 900, 64}, {0, 2});
    pair.set().taken_over();
    pair.by_full().step({65}, {0});
    EXPECT_EQ(pair.set().tokens(), 66);
    for (int64_t head = 0; head < kOwners * kKvHeads; ++head) {
        std::map<int32_t, float> now = scores_of(pair.set(), head);
        EXPECT_EQ(std::ssize(now), Case().shape.budget);
        for (const int32_t token : {63, 64, 65}) {
            ASSERT_TRUE(now.contains(token)) << "head " << head;
            EXPECT_EQ(now[token], 0) << "head " << head;
            now.erase(token);
        }
        for (const auto& [token, score] : now) {
            EXPECT_EQ(score, before[static_cast<size_t>(head)].at(token)) << "token " << token;
        }
    }
    pair.set().taken_over();
    pair.set().begin_reading(pair.stream());
    pair.by_full().step({66}, {0});
    EXPECT_GT(scores_of(pair.set(), 0).at(65), 0);
}

TEST(HeavySet, IgnoresLevelsThatDoNotRead) {
    Pair pair({});
    pair.prefill(60);
    pair.full().truncate(0, 60);
    pair.by_full().step({60, 61}, {0, 1});
    EXPECT_EQ(pair.set().tokens(), 60);
    EXPECT_THROW(pair.set().taken_over(), Error);
    pair.full().truncate(0, 60);
    EXPECT_NO_THROW(pair.set().taken_over());
}

TEST(HeavySet, ComesBackOnlyWhereACopyWasKept) {
    Case c;
    c.shape.returns = false;
    Pair pair(c);
    pair.prefill(60);
    pair.full().truncate(0, 60);
    pair.set().taken_over();
    pair.by_full().step({60}, {0});
    EXPECT_THROW(pair.full().truncate(0, 60), Error);
    pair.full().truncate(0, 0);
    EXPECT_EQ(pair.set().tokens(), 0);
}

TEST(HeavySet, TakesTheMemoryThatItSays) {
    CpuDevice device(1);
    const auto stream = device.make_stream("compute");
    FullCache full(device, *stream, kv_shape(DType::kF16), {.by_layers = true});
    for (const auto& [returns, layers] : {std::pair{false, Layers{}}, {true, Layers{}}, {false, kSharing[2]}}) {
        Case c = {.layers = layers};
        c.shape.returns = returns;
        const size_t before = device.used(Space::kDevice);
        const HeavySet set(device, *stream, full, c.shape, model_of(c));
        size_t said = HeavySet::memory_for(kv_shape(DType::kF16), c.shape, readers_of(c)).device;
        said += kernel_scratch("cpu", Phase::kDecode, HeavySet::step_limits(kv_shape(DType::kF16), c.heads), 1);
        EXPECT_GE(device.used(Space::kDevice) - before, said);
        EXPECT_LT(device.used(Space::kDevice) - before, said + size_t{2} * 4096);  // whole pages
    }
}

TEST(HeavySet, RequiresLayersOneByOneAndTruePositions) {
    CpuDevice device(1);
    const auto stream = device.make_stream("compute");
    const auto make = [&](const KvShape& kv, bool by_layers, const EvictionShape& shape) {
        FullCache full(device, *stream, kv, {.by_layers = by_layers});
        const HeavySet set(device, *stream, full, shape, model_of({}));
    };
    const EvictionShape good = Case().shape;
    EvictionShape rolling = good, other = good;
    rolling.rolling = true;
    other.policy = KvPolicy::kTova;
    EXPECT_NO_THROW(make(kv_shape(DType::kF16), true, good));
    EXPECT_THROW(make(kv_shape(DType::kF16), false, good), Error);
    EXPECT_THROW(make(kv_shape(DType::kF16), true, rolling), Error);
    EXPECT_THROW(make(kv_shape(DType::kF16), true, other), Error);
}

}  // namespace
}  // namespace trireme::test
