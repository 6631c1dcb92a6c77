// Chains on every backend: graphs and KV placement change no token, no round's number of accepted tokens, and no bit of
// the retrieved KV.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/generate.h"
#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "dist/self_comm.h"
#include "kernels/key_order.h"
#include "model/checkpoint/rope.h"
#include "offload/plan/plan.h"
#include "offload/window/window_cache.h"
#include "tests/decode/retrieving.h"
#include "tests/model/llama/engine_device.h"
#include "tests/support/engine.h"
#include "tests/support/random_model.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

constexpr int64_t kOwners = 3, kPrompt = 530, kNew = 24, kSeen = 84;

std::vector<int32_t> prompt() {
    std::vector<int32_t> ids(static_cast<size_t>(kPrompt));
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * i * 7 + i * 3 + 11) % 40);
    return ids;
}

CacheMaker window_cache(const LlamaConfig& config) {
    auto rope = std::make_shared<Rope>(config.rope, config.head_dim);
    return [rope](Device& device, Stream& compute, const KvShape& kv, const std::vector<OwnerIndex>&) {
        return std::make_unique<WindowCache>(
            device, compute, kv, WindowShape{4, kSeen - 4},
            [rope](std::span<float> out, int64_t position) { rope->turn(out, position); });
    };
}

enum class What : uint8_t { kPlain, kRetrieval, kTriForce, kTree, kWindow, kH2o };

constexpr const char *kOwn = "0_1_2", *kShared = "0_2_2_3";

/// A chain, and the layer map of its model.
struct Over {
    What what = What::kPlain;
    const char* map = kOwn;

    int64_t layers() const { return 1 + std::count(map, map + std::strlen(map), '_'); }
    int64_t owners() const { return LayerMap::parse(map, layers(), "map").owners(); }
};

/// Small enough for GPU kernels on the host. The prompt has two tiles; retrieval selects among 20 chunks of 8 tokens.
RandomShape shape_of(const Over& over) {
    return {.name = "target",
            .layers = over.layers(),
            .dim = 32,
            .heads = 2,
            .kv_heads = 2,
            .head_dim = 8,
            .ffn = 32,
            .vocab = 40,
            .context = 1024,
            .layer_map = over.map};
}

struct Case {
    Over over;
    int64_t on_chip = kOwners;
    bool graphs = true;
    double temperature = 0;
    int64_t every = 1;  // forwards between two selections
    int64_t tokens = 12;
    int64_t queries = 1;  // queries that are averaged for a selection
};

/// Result of a request.
struct Told {
    std::vector<int32_t> ids;
    std::vector<int32_t> rounds;      // proposed, accepted, ... of every verifier, outermost level first
    std::vector<uint64_t> retrieved;  // a digest after every proposal of the whole chain
    int64_t accepted = 0;             // tokens that the full model accepted
};

/// The levels of a chain, on one device.
class Chain {
  public:
    Chain(const Case& c, Comm& comm)
        : case_(c),
          engine_(std::make_unique<RandomModel>(shape_of(c.over)), engine_options(c), comm, 1, engine_device()),
          sampling_{.temperature = c.temperature} {
        LevelOptions options = engine_options(c).level();
        if (c.over.what == What::kRetrieval || c.over.what == What::kTriForce || c.over.what == What::kTree) {
            const RetrievalShape shape = {
                .budget = 64,
                .every = c.every,
                .queries = c.queries,
                .query_columns = engine_.weights().shard().n_heads * engine_->config().head_dim,
                .comes_back = true};
            set_ = std::make_unique<RetrievalSet>(engine_.device(), engine_->stream(), *engine_->full(), shape);
            options = over_set(options, *set_);
            middle_ = std::make_unique<Level>(engine_.device(), engine_.comm(), engine_.weights(), options);
        }
        if (c.over.what == What::kH2o) {
            heavy_ = heavy_set(engine_.device(), *engine_, Heavy::of(40), comm);
            options = over_set(options, *heavy_);
            middle_ = std::make_unique<Level>(engine_.device(), engine_.comm(), engine_.weights(), options);
        }
        if (c.over.what == What::kWindow || c.over.what == What::kTriForce) {
            options.cache = window_cache(engine_->config());
            window_ = std::make_unique<Level>(engine_.device(), engine_.comm(), engine_.weights(), options);
        }
        link_up();
    }

    Told tell(int samples) {
        Told told;
        decoder_->prefill(prompt(), {});
        for (int sample = 0; sample < samples; ++sample) {
            decoder_->begin(static_cast<uint32_t>(sample));
            for (int64_t n = 0; n < case_.tokens;) {
                const std::span<const Proposed> round = decoder_->propose(case_.tokens);
                std::vector<int32_t> path;
                for (const Proposed& p : round) {
                    told.ids.push_back(p.token);
                    path.push_back(static_cast<int32_t>(path.size()));
                }
                n += static_cast<int64_t>(round.size());
                decoder_->resolve(path, -1);
                decoder_->commit();
                if (set_) told.retrieved.push_back(digest());
                if (heavy_) told.retrieved.push_back(heavy_digest());
            }
        }
        for (const auto& s : speculates_) {
            for (const RoundStats& r : s->rounds()) told.rounds.insert(told.rounds.begin(), {r.proposed, r.accepted});
            told.accepted = s->stats().accepted;
        }
        return told;
    }

  private:
    static EngineOptions engine_options(const Case& c) {
        EngineOptions o{.weights = DType::kF16, .context = 1024, .graphs = c.graphs};
        o.passes = {.how = Passes::How::kFixed, .n = 2};
        // Slots of one tile.
        o.residency.by_layers = c.over.what == What::kH2o;
        if (c.on_chip >= c.over.owners()) return o;
        o.residency.on_chip = interleaved(c.over.owners(), c.on_chip);
        o.residency.ring = 3;
        o.residency.span_bytes = 1;
        return o;
    }
    void link_up() {
        if (case_.over.what == What::kPlain) {
            plain_ = std::make_unique<Plain>(*engine_, sampling_, 3);
            decoder_ = plain_.get();
            return;
        }
        Device& device = engine_.device();
        switch (case_.over.what) {
            case What::kTree:
                base_ = std::make_unique<TreeDrafter>("tree", device, *middle_, sampling_, 3,
                                                      TreeDrafter::Options{.level = 1, .size = 12, .depth = 3});
                break;
            case What::kH2o:
                base_ = std::make_unique<Drafter>("h2o", device, *middle_, sampling_, 3, 1, 5);
                break;
            case What::kRetrieval:
                base_ = std::make_unique<Drafter>("retrieval", device, *middle_, sampling_, 3, 1, 5);
                break;
            default:
                base_ = std::make_unique<Drafter>("window", device, *window_, sampling_, 3,
                                                  case_.over.what == What::kWindow ? 1 : 2, 3);
        }
        Proposer* inner = base_.get();
        if (case_.over.what == What::kTriForce) {
            held_ = std::make_unique<DraftDistributions>(device, *middle_, 6);
            const Speculate::Options checks{.verifier = "retrieval", .level = 1, .wanted = 6, .held = held_.get()};
            speculates_.push_back(std::make_unique<Speculate>(*inner, *middle_, sampling_, 3, checks));
            inner = speculates_.back().get();
        }
        speculates_.push_back(std::make_unique<Speculate>(*inner, *engine_, sampling_, 3));
        decoder_ = speculates_.back().get();
    }

    /// Digest of the retrieval set: the filled slots of every layer.
    uint64_t digest() {
        Stream& stream = engine_->stream();
        const KvShape& kv = engine_->cache().shape();
        const int64_t slots = set_->slots(), tiles = tiles_for(slots);
        const auto tile_bytes = static_cast<int64_t>(kv.layout.tile_bytes());
        const Buffer<Space::kHost> table(engine_.device(), static_cast<size_t>(set_->tiles(OwnerIndex(0)).bytes()));
        const Buffer<Space::kHost> tile(engine_.device(), static_cast<size_t>(tile_bytes));
        const HostTensor bytes = tile.tensor(DType::kU8, {tile_bytes});
        uint64_t hash = 14695981039346656037u;
        for (OwnerIndex owner; owner.i < kv.owner_layers; ++owner) {
            const Tensor from = set_->tiles(owner);
            stream.copy(table.tensor(DType::kI64, from.shape()), from);
            stream.synchronize();
            for (int64_t t = 0; t < tiles; ++t) {
                auto* at = reinterpret_cast<void*>(static_cast<const int64_t*>(table.data())[t]);
                stream.copy(bytes, Tensor(at, DType::kU8, {tile_bytes}));
                stream.synchronize();
                const int64_t filled = std::min(kTileTokens, slots - t * kTileTokens);
                hash = mixed(hash, engine_.device().backend(), static_cast<const unsigned char*>(tile.data()),
                             kv.layout, filled);
            }
        }
        return hash;
    }
    /// Digest of the heavy hitters: retained tokens, their ranks and their scores.
    uint64_t heavy_digest() {
        Stream& stream = engine_->stream();
        const SlotKv& kv = heavy_->slots_kv();
        uint64_t hash = 14695981039346656037u;
        for (const Tensor& of : {kv.tokens, kv.ranks, kv.scores}) {
            const Buffer<Space::kHost> host(engine_.device(), of.bytes());
            stream.copy(host.tensor(of.dtype(), of.shape()), of);
            stream.synchronize();
            for (int64_t head = 0; head < case_.over.owners() * kv.layout.kv_heads; ++head) {
                const auto* from = static_cast<const unsigned char*>(host.data()) + head * kv.slots() * 4;
                for (int64_t i = 0; i < 4 * heavy_->slots(); ++i) hash = (hash ^ from[i]) * 1099511628211u;
            }
        }
        return hash;
    }
    /// FNV-1a over the first slots of a tile, keys and values of every head.
    static uint64_t mixed(uint64_t hash, std::string_view backend, const unsigned char* tile, const KvLayout& layout,
                          int64_t slots) {
        const auto size = static_cast<int64_t>(size_of(layout.k_type));
        for (int64_t half = 0; half < 2 * layout.kv_heads; ++half) {
            const unsigned char* from = tile + half * kTileTokens * layout.head_dim * size;
            for (int64_t i = 0; i < slots * layout.head_dim; ++i) {
                const int64_t token = i / layout.head_dim, element = i % layout.head_dim;
                const int64_t place =
                    half < layout.kv_heads ? key_place(backend, layout.k_type, layout.head_dim, token, element) : i;
                for (int64_t b = 0; b < size; ++b) hash = (hash ^ from[place * size + b]) * 1099511628211u;
            }
        }
        return hash;
    }

    Case case_;
    Engine engine_;
    SamplingParams sampling_;
    std::unique_ptr<RetrievalSet> set_;
    std::unique_ptr<HeavySet> heavy_;
    std::unique_ptr<Level> middle_, window_;
    std::unique_ptr<Proposer> base_;
    std::unique_ptr<DraftDistributions> held_;
    std::vector<std::unique_ptr<Speculate>> speculates_;  // the innermost first
    std::unique_ptr<Plain> plain_;
    Decoder* decoder_ = nullptr;
};

Told tell(const Case& c, int ranks = 1, int samples = 1) {
    Told told;
    run_ranks(ranks, [&](Comm& comm) {
        Chain chain(c, comm);
        Told mine = chain.tell(samples);
        if (comm.rank() == 0) told = std::move(mine);
    });
    return told;
}

std::string named(const Case& c) {
    return fmt::format("{}, {} on chip, graphs {}, every {}", c.over.map, c.on_chip, c.graphs, c.every);
}

void expect_same(const Told& a, const Told& b, const Case& c) {
    EXPECT_EQ(a.ids, b.ids) << named(c);
    EXPECT_EQ(a.rounds, b.rounds) << named(c);
    EXPECT_EQ(a.retrieved, b.retrieved) << named(c);
}

/// Compares the tokens that both have: the last round may emit more tokens than were requested.
void expect_greedy(const Told& chain, const Told& plain) {
    const auto n = static_cast<std::ptrdiff_t>(std::min(chain.ids.size(), plain.ids.size()));
    EXPECT_EQ(std::vector(chain.ids.begin(), chain.ids.begin() + n),
              std::vector(plain.ids.begin(), plain.ids.begin() + n));
}

class DeviceChains : public testing::TestWithParam<Over> {};

TEST_P(DeviceChains, GraphsAndResidencyChangeNothing) {
    const Over over = GetParam();
    const Told plain = tell({.over = {What::kPlain, over.map}, .graphs = false});
    const Told greedy = tell({.over = over, .graphs = false});
    expect_greedy(greedy, plain);
    EXPECT_GT(greedy.accepted, 0);
    for (const int64_t on_chip : {kOwners, int64_t{1}, int64_t{0}}) {
        const Case c = {.over = over, .on_chip = on_chip};
        expect_same(tell(c), greedy, c);
    }
}

TEST_P(DeviceChains, GraphsAndResidencyChangeNoSample) {
    Case c = {.over = GetParam(), .graphs = false, .temperature = 0.7, .every = 3, .tokens = 20, .queries = 4};
    const Told told = tell(c, 1, 2);
    c.graphs = true;
    c.on_chip = 1;
    expect_same(tell(c, 1, 2), told, c);
}

TEST_P(DeviceChains, GraphsChangeNothingOnTwoRanks) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    Case c = {.over = GetParam(), .on_chip = 1, .graphs = false, .temperature = 0.7};
    const Told told = tell(c, 2);
    c.graphs = true;
    expect_same(tell(c, 2), told, c);
}

// If layers read later ones, a forward of several rows takes several passes, and each pass launches a graph.
TEST_P(DeviceChains, GraphsAndResidencyChangeNothingWhereLayersReadLaterOnes) {
    const auto check_map = [](const char* map, const std::vector<int64_t>& on_chip) {
        Case c = {.over = {GetParam().what, map}, .graphs = false, .temperature = 0.7, .tokens = 20, .queries = 4};
        const Told told = tell(c);
        EXPECT_GT(told.accepted, 0);
        c.graphs = true;
        for (const int64_t owners : on_chip) {
            c.on_chip = owners;
            expect_same(tell(c), told, c);
        }
    };
    check_map("0_2_2", {2, 0});
    check_map("2_1_2", {1});
}

std::string name_of_case(const testing::TestParamInfo<Over>& param) {
    const std::array<const char*, 6> names = {"plain", "retrieval", "triforce", "tree", "window", "h2o"};
    return names[static_cast<size_t>(param.param.what)] + std::string(param.param.map == kShared ? "_shared" : "");
}

INSTANTIATE_TEST_SUITE_P(Chains, DeviceChains,
                         testing::Values(Over{What::kRetrieval}, Over{What::kTriForce}, Over{What::kTree},
                                         Over{What::kWindow}, Over{What::kH2o}, Over{What::kH2o, kShared}),
                         name_of_case);

}  // namespace
}  // namespace trireme::test
