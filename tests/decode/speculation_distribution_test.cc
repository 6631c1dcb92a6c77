// At temperature > 0 the continuations of every chain have the distribution of plain decoding. A G-test compares them
// with probabilities that are multiplied, in f64, from the model's logits.

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "decode/decode_state.h"
#include "decode/drafter.h"
#include "decode/ngram.h"
#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/suffix.h"
#include "decode/tree_drafter.h"
#include "runtime/random.h"
#include "tests/decode/distributions.h"

namespace trireme::test {
namespace {

const std::vector<int32_t> kPrompt = {1, 2, 3, 1};

/// TriForce's middle level as it was released (triforce.md 5.4). If the draft's token is rejected, it samples from r
/// itself instead of the residual, and proposes the token as sampled from r. Biased at temperature > 0.
class ReleasedMiddle final : public Proposer {
  public:
    ReleasedMiddle(Drafter& draft, Engine& middle, const SamplingParams& sampling, uint64_t seed, int64_t length)
        : draft_(draft),
          text_(*middle),
          held_(middle.device(), *middle, length + 1),
          sampling_(sampling),
          seed_(seed),
          length_(length) {}
    const char* name() const override { return "released"; }
    void prefill(std::span<const int32_t> prompt, const Progress&) override {
        text_.prefill(prompt, {});
        draft_.prefill(prompt, {});
    }
    void begin(uint32_t sample) override {
        text_.begin();
        draft_.begin(sample);
        sample_ = sample;
        round_ = 0;
    }
    std::span<const Proposed> propose(int64_t limit) override {
        proposal_.clear();
        while (static_cast<int64_t>(proposal_.size()) < std::min(limit, length_)) round();
        proposal_.resize(std::min(proposal_.size(), static_cast<size_t>(limit)));
        return proposal_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override {
        const auto drop = static_cast<int64_t>(taken_ - path.size());
        taken_ = 0;
        rewind(drop, next);
    }
    void rewind(int64_t n, int32_t next) override {
        text_.truncate(text_.length() - n, next);
        draft_.rewind(n, next);
    }
    void commit() override {
        text_.commit();
        draft_.commit();
    }

  private:
    void round() {
        Level& middle = text_.level();
        const auto draw = [&](Purpose purpose) {
            return uniform(seed_, {.sample = sample_, .round = round_, .level = 1, .purpose = purpose});
        };
        const Proposed x = draft_.propose(1)[0];
        std::vector<Row> rows;
        text_.rows_of_pending(rows);
        const auto root = static_cast<int64_t>(rows.size()) - 1;
        rows.push_back({.token = x.token,
                        .position = rows.back().position + 1,
                        .parent = middle.cache().staged().size() + static_cast<int32_t>(root)});
        middle.extend(rows);
        middle.stream().wait(x.distribution.ready);
        const std::array<Proposal, 2> proposals = {
            Proposal{.uniform = static_cast<uint64_t>(fraction_of(draw(Purpose::kResidual)))},
            Proposal{.token = x.token,
                     .distribution = x.distribution.distribution,
                     .row = x.distribution.row,
                     .uniform = static_cast<uint64_t>(fraction_of(draw(Purpose::kAccept)))}};
        const Logits::Accepted answer = middle.logits().accept(sampling_, proposals);
        const bool stays = !answer.accepted.empty();
        int32_t next = answer.next;
        if (!stays) {
            const std::vector<double> u(rows.size(), draw(Purpose::kShuffle));
            next = middle.logits().sample(sampling_, u, /*distributions=*/true)[static_cast<size_t>(root)];
        }
        if (stays) take(x.token, root);
        take(next, stays ? root + 1 : root);
        const std::array<int32_t, 1> path = {static_cast<int32_t>(root) + 1};
        text_.accept_rows(std::span(path).first(stays ? 1 : 0));
        text_.append(next);
        constexpr std::array<int32_t, 1> kFirst = {0};
        draft_.resolve(std::span(kFirst).first(stays ? 1 : 0), next);
        ++round_;
    }
    void take(int32_t token, int64_t row) {
        const auto i = static_cast<int32_t>(proposal_.size());
        proposal_.push_back({.token = token, .parent = i - 1, .distribution = held_.hold(i, row)});
        ++taken_;
    }

    Drafter& draft_;
    DecodeState text_;
    DraftDistributions held_;
    SamplingParams sampling_;
    uint64_t seed_;
    int64_t length_;
    size_t taken_ = 0;
    uint32_t sample_ = 0, round_ = 0;
    std::vector<Proposed> proposal_;
};

class SpeculationDistribution : public testing::Test {
  protected:
    SelfComm comm;
    EngineOptions exact{.weights = DType::kF32, .k_type = DType::kF32, .v_type = DType::kF32, .context = 64};
    Engine target{few_tokens_model(32), exact, comm};
    Engine draft{few_tokens_model(48), exact, comm};
    const SamplingParams sampling{.temperature = 0.6, .top_k = 0, .top_p = 0.9, .min_p = 0};
    const std::map<std::vector<int32_t>, double> distributions = distributions_of(*target, kPrompt, sampling);

    double likelihood(const Slots& decoder) { return likelihood_of(distributions, decoder, kPrompt); }
};

TEST_F(SpeculationDistribution, PlainDecodingHasIt) {
    Plain plain(*target, sampling, 1);
    EXPECT_GT(likelihood(plain), kUnlikely);
}

TEST_F(SpeculationDistribution, TheDraftHasAnother) {
    const auto others = distributions_of(*draft, kPrompt, sampling);
    double distance = 0;
    for (const auto& [ids, p] : distributions)
        distance += std::abs(p - (others.contains(ids) ? others.at(ids) : 0)) / 2;
    EXPECT_GT(distance, 0.2);
}

TEST_F(SpeculationDistribution, SuffixesLeaveIt) {
    auto corpus = std::make_shared<SuffixAutomaton>();
    for (const int32_t token : {1, 2, 0, 3, 2, 1, 1, 3}) corpus->append(token);
    Suffix suffix(5, corpus);
    Speculate speculate(suffix, *target, sampling, 2);
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(speculate.stats().accepted, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
}

TEST_F(SpeculationDistribution, NgramsLeaveIt) {
    Ngram ngram(3);
    Speculate speculate(ngram, *target, sampling, 2);
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(speculate.stats().accepted, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
}

TEST_F(SpeculationDistribution, ADraftLeavesIt) {
    for (const int64_t length : {1, 3}) {
        Drafter drafter("draft", draft.device(), *draft, sampling, 3, 1, length);
        Speculate speculate(drafter, *target, sampling, 3);
        EXPECT_GT(likelihood(speculate), kUnlikely) << length;
        EXPECT_GT(speculate.stats().accepted, 0);
        EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
    }
}

// Chains of three, one for each of eight parallel samples, with the verifies of all in one forward.
TEST_F(SpeculationDistribution, ParallelSamplesLeaveIt) {
    LevelOptions options = exact.level();
    options.sequences = 8;
    Level level(target.device(), comm, target.weights(), options);
    options.sequences = 1;
    Engine between(few_tokens_model(64), exact, comm);
    struct Chain {
        std::unique_ptr<Level> small, middle;
        std::unique_ptr<Drafter> drafter;
        std::unique_ptr<DraftDistributions> held;
        std::unique_ptr<Speculate> retrieval, speculate;
    };
    std::vector<Chain> chains(8);
    std::vector<Decoder*> decoders;
    for (Chain& c : chains) {
        c.small = std::make_unique<Level>(draft.device(), comm, draft.weights(), options);
        c.middle = std::make_unique<Level>(between.device(), comm, between.weights(), options);
        c.drafter = std::make_unique<Drafter>("draft", draft.device(), *c.small, sampling, 4, 2, 2);
        c.held = std::make_unique<DraftDistributions>(between.device(), *c.middle, 8);
        c.retrieval = std::make_unique<Speculate>(
            *c.drafter, *c.middle, sampling, 4,
            Speculate::Options{.verifier = "retrieval", .level = 1, .wanted = 3, .held = c.held.get()});
        c.speculate = std::make_unique<Speculate>(*c.retrieval, level, sampling, 4,
                                                  Speculate::Options{.sequence = static_cast<int>(decoders.size())});
        decoders.push_back(c.speculate.get());
    }
    EXPECT_GT(likelihood(Slots(decoders)), kUnlikely);
    for (const Chain& c : chains) {
        EXPECT_GT(c.retrieval->stats().accepted, 0);
        EXPECT_LT(c.speculate->stats().accepted, c.speculate->stats().proposed);
    }
}

TEST_F(SpeculationDistribution, AChainOfThreeLeavesIt) {
    Engine between(few_tokens_model(64), exact, comm);
    for (const int64_t inner : {1, 2}) {
        Drafter drafter("draft", draft.device(), *draft, sampling, 4, 2, inner);
        DraftDistributions held(between.device(), *between, 8);
        Speculate retrieval(drafter, *between, sampling, 4,
                            {.verifier = "retrieval", .level = 1, .wanted = 3, .held = &held});
        Speculate speculate(retrieval, *target, sampling, 4);
        EXPECT_GT(likelihood(speculate), kUnlikely) << inner;
        EXPECT_GT(retrieval.stats().accepted, 0);
        EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
    }
}

// Tokens with siblings: of a draft, and of a level that verifies a draft.
TEST_F(SpeculationDistribution, SiblingsLeaveIt) {
    for (const int64_t siblings : {1, 3}) {
        Drafter drafter("draft", draft.device(), *draft, sampling, 8, 1, 3);
        Speculate speculate(drafter, *target, sampling, 8, {.longest = 3, .siblings = siblings});
        EXPECT_GT(likelihood(speculate), kUnlikely) << siblings;
        EXPECT_GT(speculate.stats().rescued, 0);
        EXPECT_GT(speculate.stats().siblings, 2 * speculate.stats().rescued);
    }
}

TEST_F(SpeculationDistribution, SiblingsInAChainOfThreeLeaveIt) {
    Engine between(few_tokens_model(64), exact, comm);
    Drafter drafter("draft", draft.device(), *draft, sampling, 9, 2, 2);
    DraftDistributions held(between.device(), *between, 8);
    Speculate retrieval(drafter, *between, sampling, 9,
                        {.verifier = "retrieval", .level = 1, .wanted = 3, .held = &held});
    Speculate speculate(retrieval, *target, sampling, 9, {.longest = 3, .siblings = 2});
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(retrieval.stats().accepted, 0);
    EXPECT_GT(speculate.stats().rescued, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
}

TEST_F(SpeculationDistribution, SiblingsThatAdaptLeaveIt) {
    Drafter drafter("draft", draft.device(), *draft, sampling, 10, 1, 3);
    GammaController lengths;
    lengths.set_costs({"full", {{1, 10}}}, nullptr, 2);
    Speculate speculate(drafter, *target, sampling, 10,
                        {.gamma = &lengths, .longest = 3, .siblings = GammaController::kAutoSiblings});
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(speculate.stats().rescued, 0);
}

// With these costs a single rejected token turns speculation off.
TEST_F(SpeculationDistribution, LengthsThatAdaptLeaveIt) {
    Drafter drafter("draft", draft.device(), *draft, sampling, 6, 1, 3);
    GammaController lengths;
    lengths.set_costs({"full", {{1, 10}}}, nullptr, 6);
    Speculate speculate(drafter, *target, sampling, 6, {.gamma = &lengths});
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(speculate.stats().off, 0);
    EXPECT_LT(speculate.stats().off, speculate.stats().rounds);
    EXPECT_GT(speculate.stats().accepted, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
}

TEST_F(SpeculationDistribution, LengthsThatAdaptInAChainOfThreeLeaveIt) {
    Engine between(few_tokens_model(64), exact, comm);
    Drafter drafter("draft", draft.device(), *draft, sampling, 7, 2, 3);
    DraftDistributions held(between.device(), *between, 3);
    std::vector<GammaController> lengths(2);
    set_costs(lengths, {{"full", {{1, 10}}}, {"retrieval", {{1, 2}}}, {"draft", {{1, 1}}}});
    Speculate retrieval(drafter, *between, sampling, 7,
                        {.verifier = "retrieval", .level = 1, .wanted = 3, .held = &held, .gamma = &lengths[1]});
    Speculate speculate(retrieval, *target, sampling, 7, {.gamma = &lengths[0]});
    EXPECT_GT(likelihood(speculate), kUnlikely);
    EXPECT_GT(retrieval.stats().accepted, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
}

// Acceptance rates by sibling for wide trees: top-p leaves three or four of the five tokens, and most are proposed.
constexpr double kWide[] = {0.4, 0.3, 0.2, 0.1, 0.05};

TEST_F(SpeculationDistribution, ATreeLeavesIt) {
    for (const auto& [size, depth] : {std::pair<int64_t, int64_t>{2, 1}, {5, 1}, {4, 2}, {12, 3}}) {
        TreeDrafter tree("tree", draft.device(), *draft, sampling, 6,
                         {.size = size, .depth = depth, .acceptance = kWide});
        Speculate speculate(tree, *target, sampling, 6);
        EXPECT_GT(likelihood(speculate), kUnlikely) << size << " " << depth;
        EXPECT_GT(speculate.stats().accepted, 0);
        EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
    }
}

/// Proposes two siblings in reverse order, so the first was not sampled from the distribution that it is verified with.
class Swapped final : public Proposer {
  public:
    explicit Swapped(TreeDrafter& tree) : tree_(tree) {}
    const char* name() const override { return "swapped"; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override {
        tree_.prefill(prompt, progress);
    }
    void begin(uint32_t sample) override { tree_.begin(sample); }
    std::span<const Proposed> propose(int64_t limit) override {
        const auto two = tree_.propose(limit);
        proposal_.assign(two.begin(), two.end());
        std::reverse(proposal_.begin(), proposal_.end());
        return proposal_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override {
        std::vector<int32_t> own(path.begin(), path.end());
        for (int32_t& i : own) i = static_cast<int32_t>(proposal_.size()) - 1 - i;
        tree_.resolve(own, next);
    }
    void rewind(int64_t n, int32_t next) override { tree_.rewind(n, next); }
    void commit() override { tree_.commit(); }

  private:
    TreeDrafter& tree_;
    std::vector<Proposed> proposal_;
};

TEST_F(SpeculationDistribution, SiblingsInAnotherOrderDoNotLeaveIt) {
    TreeDrafter tree("tree", draft.device(), *draft, sampling, 7, {.size = 2, .depth = 1, .acceptance = kWide});
    Swapped swapped(tree);
    Speculate speculate(swapped, *target, sampling, 7);
    EXPECT_LT(likelihood(speculate), kUnlikely);
}

TEST_F(SpeculationDistribution, TheReleasedRuleOfTriForceDoesNotLeaveIt) {
    Engine between(few_tokens_model(64), exact, comm);
    Drafter drafter("draft", draft.device(), *draft, sampling, 5, 2, 1);
    ReleasedMiddle released(drafter, between, sampling, 5, 2);
    Speculate speculate(released, *target, sampling, 5);
    EXPECT_LT(likelihood(speculate), kUnlikely);
}

}  // namespace
}  // namespace trireme::test
