// Greedy speculation emits the tokens of plain decoding, whatever is proposed.

#include "decode/speculate.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "decode/suffix.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

/// Proposes random trees, or chains. Some of their tokens are those of the known continuation.
class Guesses final : public Proposer {
  public:
    Guesses(std::vector<int32_t> known, int64_t size, int32_t vocab, uint32_t seed)
        : known_(std::move(known)), size_(size), vocab_(vocab), seed_(seed) {}
    const char* name() const override { return "guesses"; }
    void prefill(std::span<const int32_t>, const Progress&) override {}
    void begin(uint32_t) override { text_.clear(); }
    std::span<const Proposed> propose(int64_t limit) override {
        proposal_.clear();
        std::vector<int32_t> depth;
        for (int32_t i = 0; i < size_; ++i) {
            const int32_t parent = chains ? i - 1 : static_cast<int32_t>(random(static_cast<uint32_t>(i) + 1)) - 1;
            depth.push_back(parent < 0 ? 0 : depth[static_cast<size_t>(parent)] + 1);
            if (depth.back() >= limit) {
                depth.pop_back();
                break;
            }
            const size_t at = text_.size() + static_cast<size_t>(depth.back());
            const bool right = at < known_.size() && random(4) != 0;
            proposal_.push_back(
                {.token = right ? known_[at] : static_cast<int32_t>(random(static_cast<uint32_t>(vocab_))),
                 .parent = parent});
            ++proposed_at[static_cast<size_t>(depth.back())];
            branched |= parent != i - 1;
        }
        return proposal_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override {
        for (const int32_t i : path) text_.push_back(proposal_[static_cast<size_t>(i)].token);
        for (size_t depth = 0; depth < path.size(); ++depth) ++accepted_at[depth];
        if (next >= 0) text_.push_back(next);
    }
    void rewind(int64_t n, int32_t next) override {
        text_.resize(text_.size() - static_cast<size_t>(n));
        if (next >= 0) text_.push_back(next);
    }
    const std::vector<int32_t>& text() const { return text_; }
    bool chains = false;
    // Proposed and accepted tokens by depth; `branched`: some proposal was not a chain.
    std::array<int64_t, kMaxRows> proposed_at = {}, accepted_at = {};
    bool branched = false;

  private:
    uint32_t random(uint32_t n) {
        seed_ = seed_ * 1664525 + 1013904223;
        return (seed_ >> 8) % n;
    }
    std::vector<int32_t> known_, text_;
    int64_t size_;
    int32_t vocab_;
    uint32_t seed_;
    std::vector<Proposed> proposal_;
};

class Speculation : public KjvPrompt {
  protected:
    void SetUp() override {
        request.max_new = 90;
        plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    }
    std::vector<int32_t> plain;
};

TEST_F(Speculation, OfAnyProposalIsPlainDecodingWhenGreedy) {
    for (const bool chains : {true, false}) {
        for (const int64_t size : {1, 2, 5, 16, 62}) {
            for (uint32_t seed = 1; seed <= (kSanitized ? 1U : 4U); ++seed) {
                Guesses guesses(plain, size, 1024, seed);
                guesses.chains = chains;
                Speculate speculate(guesses, *engine, request.sampling, 0);

                EXPECT_EQ(ids_of(speculate, request, stats), plain) << size << " " << seed << " " << chains;
                EXPECT_EQ(guesses.text(), plain);
                EXPECT_EQ(stats.rounds, speculate.stats().rounds + 1);
                EXPECT_EQ(stats.new_tokens, stats.rounds + speculate.stats().accepted);
                EXPECT_GT(speculate.stats().accepted, 0);
                EXPECT_EQ(speculate.stats().proposed_at, guesses.proposed_at);
                EXPECT_EQ(speculate.stats().accepted_at, guesses.accepted_at);
                EXPECT_EQ(speculate.stats().branched, guesses.branched);
            }
        }
    }
}

TEST_F(Speculation, AfterLookupsIsPlainDecodingWhenGreedy) {
    request.prompt = tokenizer->encode("And God said, Let there be light: and there was light. And God said,", true);
    for (const int64_t n : {1, 10, 200}) {
        request.max_new = n;
        const std::vector<int32_t> alone = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
        for (const int64_t length : {1, 3, 8, 63}) {
            Ngram ngram(length);
            Suffix suffix(length);
            for (Proposer* lookup : std::initializer_list<Proposer*>{&ngram, &suffix}) {
                Speculate speculate(*lookup, *engine, request.sampling, 0);

                EXPECT_EQ(ids_of(speculate, request, stats), alone) << lookup->name() << " " << n << " " << length;
                EXPECT_TRUE(n < 200 || speculate.stats().accepted > 0);
            }
        }
    }
}

/// Decoders of one model continue after one prefill of it, whatever other decoders have generated since.
TEST_F(Speculation, AdoptsAPromptThatAnotherDecoderHasRead) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    const GenerateRequest r = {.prompt = request.prompt, .max_new = request.max_new};
    Plain alone(*engine, request.sampling, 0);
    Ngram ngram(4);
    Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, 5);
    Drafter longer_draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, 9);  // same level
    Speculate quoting(ngram, *engine, request.sampling, 0), drafted(draft, *engine, request.sampling, 0),
        drafted_more(longer_draft, *engine, request.sampling, 0);
    read_prompt(alone, r, stats);
    const GenerateStats prefilled = stats;
    for (int turn = 0; turn < 2; ++turn) {
        for (Decoder* decoder : std::initializer_list<Decoder*>{&drafted, &alone, &drafted_more, &quoting}) {
            stats = prefilled;
            decoder->adopt(r.prompt);
            EXPECT_EQ(continue_prompt(*decoder, nullptr, r, stats).at(0).ids, plain) << decoder->name();
            EXPECT_GE(stats.ttft_ms, prefilled.prefill_ms);
            EXPECT_EQ(stats.prompt_tokens, prefilled.prompt_tokens);
        }
    }
    const std::vector<int32_t> longer(static_cast<size_t>(engine->length()) + 1, 5);
    EXPECT_THROW(alone.adopt(longer), Error);
}

/// Proposes the same tokens in every round.
class Told final : public Proposer {
  public:
    explicit Told(std::vector<int32_t> tokens) : tokens_(std::move(tokens)) {}
    const char* name() const override { return "reported"; }
    void prefill(std::span<const int32_t>, const Progress&) override {}
    void begin(uint32_t) override {}
    std::span<const Proposed> propose(int64_t limit) override {
        limits.push_back(limit);
        proposal_.clear();
        for (const int32_t t : tokens_) {
            const auto i = static_cast<int32_t>(proposal_.size());
            if (i < limit) proposal_.push_back({.token = t, .parent = i - 1});
        }
        return proposal_;
    }
    void resolve(std::span<const int32_t>, int32_t) override {}
    void rewind(int64_t, int32_t) override {}
    std::vector<int64_t> limits;  // of all calls of propose()

  private:
    std::vector<int32_t> tokens_;
    std::vector<Proposed> proposal_;
};

/// Ranks compare the digest. It differs between proposals of which no token is accepted, and between draft lengths
/// without a proposal.
TEST_F(Speculation, DigestsWhatItProposed) {
    request.max_new = 20;
    const auto digest_of = [&](std::vector<int32_t> proposes, GammaController* lengths = nullptr) {
        Told told(std::move(proposes));
        Speculate speculate(told, *engine, request.sampling, 0, {.gamma = lengths});
        EXPECT_EQ(speculate.digest(), 0u);
        ids_of(speculate, request, stats);
        const uint64_t once = speculate.digest();
        EXPECT_EQ(speculate.stats().accepted, 0);
        ids_of(speculate, request, stats);
        EXPECT_EQ(speculate.digest(), once);  // the same sequence again
        return once;
    };
    // Tokens 3 and 4 are the bytes 0x00 and 0x01, which the continuation does not contain.
    const std::vector<uint64_t> all = {digest_of({}), digest_of({3, 3}), digest_of({3, 4}), digest_of({3}),
                                       digest_of({4, 4})};
    EXPECT_EQ(std::set<uint64_t>(all.begin(), all.end()).size(), all.size());
    EXPECT_EQ(digest_of({3, 4}), all[2]);
    GammaController three(3), four(4);
    for (GammaController* lengths : {&three, &four}) lengths->set_costs({"full", {{1, 1}}}, nullptr, 1);
    EXPECT_NE(digest_of({}, &three), digest_of({}, &four));
}

// The last round does not count as off: only one token is left, so no draft length is chosen.
TEST_F(Speculation, DraftsNothingWhereNothingPays) {
    Told told({3});
    GammaController lengths;
    lengths.set_costs({"full", {{1, 1}}}, nullptr, 100);
    Speculate speculate(told, *engine, request.sampling, 0, {.gamma = &lengths});

    EXPECT_EQ(ids_of(speculate, request, stats), plain);
    EXPECT_EQ(told.limits, std::vector<int64_t>());
    EXPECT_EQ(speculate.stats().off, speculate.stats().rounds - 1);
}

// If drafting does not pay at first, it is tried again after some tokens. Tokens that the level above commits count,
// whatever their ids.
TEST_F(Speculation, TriesAgainAfterTokensOfOthers) {
    for (const int32_t token : {0, 5}) {
        Told told({3});
        GammaController lengths;
        lengths.set_costs({"full", {{1, 10}}}, nullptr, 7);
        Speculate speculate(told, *engine, request.sampling, 0, {.level = 1, .gamma = &lengths});
        speculate.prefill(request.prompt, {});
        speculate.begin(0);
        const auto hear = [&](int64_t tokens) {
            for (int64_t i = 0; i < tokens; ++i) {
                speculate.resolve({}, token);
                speculate.commit();
            }
            speculate.propose(2);
        };
        hear(100);
        EXPECT_EQ(told.limits, std::vector<int64_t>());
        hear(150);
        EXPECT_EQ(told.limits, std::vector<int64_t>{1}) << token;
    }
}

// The first token is sampled from the prompt's logits; each other token takes a row.
TEST_F(Speculation, ContinuesWhileThereIsRoomForARow) {
    Told nothing({});
    Speculate speculate(nothing, *engine, request.sampling, 0, {.level = 1, .wanted = 100});
    speculate.prefill(request.prompt, {});
    speculate.begin(0);
    const std::span<const Proposed> proposed = speculate.propose(100);

    ASSERT_EQ(proposed.size(), size_t{kMaxRows + 1});
    for (size_t i = 0; i < proposed.size(); ++i) EXPECT_EQ(proposed[i].token, plain[i]) << i;
}

// At temperature 0, each token is the most probable one of the distribution that comes with it.
TEST_F(Speculation, ProposesTokensWithTheirDistributions) {
    Guesses guesses(plain, 3, 1024, 5);
    guesses.chains = true;
    DraftDistributions held(engine.device(), *engine, 40);
    Speculate speculate(guesses, *engine, request.sampling, 0, {.level = 1, .wanted = 30, .held = &held});
    speculate.prefill(request.prompt, {});
    speculate.begin(0);
    const std::span<const Proposed> proposed = speculate.propose(40);
    engine->stream().synchronize();

    ASSERT_GE(proposed.size(), 30u);
    EXPECT_GT(speculate.stats().accepted, 0);
    EXPECT_LT(speculate.stats().accepted, speculate.stats().proposed);
    for (size_t i = 0; i < proposed.size(); ++i) {
        const float* logits = proposed[i].distribution.row.data;
        EXPECT_EQ(std::max_element(logits, logits + 1024) - logits, proposed[i].token) << i;
    }
}

/// The counts of some rounds are the difference of two totals.
TEST_F(Speculation, CountsAreSubtracted) {
    Ngram ngram(4);
    Speculate speculate(ngram, *engine, request.sampling, 0);
    ids_of(speculate, request, stats);
    const SpeculationStats once = speculate.stats();
    ids_of(speculate, request, stats);
    const SpeculationStats second = speculate.stats() - once;
    EXPECT_EQ(second.rounds, once.rounds);
    EXPECT_EQ(second.proposed, once.proposed);
    EXPECT_EQ(second.accepted, once.accepted);
    EXPECT_EQ(second.proposed_at, once.proposed_at);
    EXPECT_EQ(second.accepted_at, once.accepted_at);
    EXPECT_GT(second.verify_ns, 0u);
    EXPECT_DOUBLE_EQ(second.accept_len(), 1 + static_cast<double>(once.accepted) / static_cast<double>(once.rounds));
    EXPECT_EQ(SpeculationStats().accept_rate(), 0);
}

/// TriForce's chain: the draft proposes to a second level of the target, which proposes to the target.
TEST_F(Speculation, OfThreeLevelsIsPlainDecodingWhenGreedy) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    Level middle(engine.device(), comm, engine.weights(), {.context = 512});
    for (const int64_t inner : {1, 2, 5}) {
        for (const int64_t length : {1, 4, 16, 40}) {
            Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 2, inner);
            DraftDistributions held(engine.device(), middle, length + inner);
            Speculate retrieval(draft, middle, request.sampling, 0,
                                {.verifier = "retrieval", .level = 1, .wanted = length, .held = &held});
            Speculate speculate(retrieval, *engine, request.sampling, 0);

            EXPECT_EQ(ids_of(speculate, request, stats), plain) << inner << " " << length;
            // The middle level sees what the target sees: every token that it proposes is accepted.
            EXPECT_EQ(speculate.stats().accepted, speculate.stats().proposed);
            EXPECT_GT(retrieval.stats().accepted, 0);
            EXPECT_LT(retrieval.stats().accepted, retrieval.stats().proposed);
            EXPECT_STREQ(speculate.name(), "draft+retrieval+full");
        }
    }
}

TEST_F(Speculation, OfADraftFindsRoomWithStagedRows) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    Drafter draft("draft", draft_engine.device(), *draft_engine, request.sampling, 0, 1, 100);
    draft.prefill(request.prompt, {});
    draft.begin(0);
    EXPECT_EQ(draft.propose(100).size(), size_t{kMaxRows + 1});  // the first one is sampled from the prompt's logits
    draft.resolve({}, 5);
    EXPECT_TRUE(draft.propose(100).empty());  // rejected rows remain staged until commit()
    draft.resolve({}, 6);
    draft.commit();
    EXPECT_EQ(draft.propose(100).size(), size_t{kMaxRows - 1});  // two tokens had not been computed
    EXPECT_EQ(draft_engine->cache().staged().size(), kMaxRows);
}

// While a draft is not used, it computes nothing; then it reads the last 16 tokens, as far as its context allows.
TEST_F(Speculation, ADraftThatIsNotAskedComputesNothing) {
    Engine draft_engine(data_path("models/kjv-draft"), kExact, comm);
    const auto prompt = static_cast<int64_t>(request.prompt.size());
    const auto listen = [&](int64_t context) {
        Level level(draft_engine.device(), comm, draft_engine.weights(), {.context = context});
        Drafter draft("draft", draft_engine.device(), level, request.sampling, 0, 1, 5);
        draft.prefill(request.prompt, {});
        draft.begin(0);
        for (int32_t heard = 1; heard <= 60; ++heard) {
            draft.resolve({}, heard);
            draft.commit();
            EXPECT_EQ(level.length(), prompt) << heard;
        }
        std::vector<int32_t> proposed;
        for (const Proposed& p : draft.propose(5)) proposed.push_back(p.token);
        draft.resolve({}, -1);
        draft.commit();
        EXPECT_EQ(level.length(), prompt + (proposed.empty() ? 0 : 16));
        return proposed;
    };
    // The draft of the prompt and tokens 45 to 60.
    Level alone(draft_engine.device(), comm, draft_engine.weights(), {.context = 512});
    Drafter draft("draft", draft_engine.device(), alone, request.sampling, 0, 1, 5);
    std::vector<int32_t> text = request.prompt;
    for (int32_t heard = 45; heard <= 60; ++heard) text.push_back(heard);
    draft.prefill(text, {});
    draft.begin(0);
    std::vector<int32_t> expected;
    for (const Proposed& p : draft.propose(5)) expected.push_back(p.token);

    EXPECT_EQ(listen(512), expected);
    EXPECT_EQ(listen(prompt + 16), std::vector<int32_t>());
}

/// Counts the prompts that a cache has read.
class Prompts final : public KvObserver {
  public:
    void prefilled(int64_t) override { ++read; }
    int64_t read = 0;
};

TEST_F(Speculation, ReadsThePromptOnceForAllSamples) {
    Prompts prompts;
    Level two(engine.device(), comm, engine.weights(), {.context = 512, .sequences = 2});
    two.cache().add_observer(prompts);
    Ngram ngram(4);
    Speculate speculate(ngram, two, request.sampling, 0);
    const GenerateRequest r = {.prompt = request.prompt, .max_new = 20, .num_samples = 3};
    const auto samples = trireme::generate(speculate, nullptr, r, stats);
    EXPECT_EQ(samples.at(1).ids, samples.at(0).ids);
    EXPECT_EQ(samples.at(2).ids, samples.at(0).ids);
    EXPECT_EQ(prompts.read, 1);
}

TEST_F(Speculation, EndsInsideABlock) {
    const int32_t eos = plain.at(40);
    const auto first = std::find(plain.begin(), plain.end(), eos);
    request.eos = {eos};
    Guesses guesses(plain, 7, 1024, 9);
    Speculate speculate(guesses, *engine, request.sampling, 0);

    EXPECT_EQ(ids_of(speculate, request, stats), std::vector<int32_t>(plain.begin(), first + 1));
    EXPECT_EQ(guesses.text(), std::vector<int32_t>(plain.begin(), first + 1));
    EXPECT_LE(engine->length(), static_cast<int64_t>(request.prompt.size() + guesses.text().size()));
}

TEST_F(Speculation, DoesNotSayMoreThanItMay) {
    for (const int64_t n : {1, 2, 3, 7}) {
        request.max_new = n;
        Guesses guesses(plain, 16, 1024, 3);
        Speculate speculate(guesses, *engine, request.sampling, 0);
        EXPECT_EQ(ids_of(speculate, request, stats), std::vector<int32_t>(plain.begin(), plain.begin() + n));
    }
}

TEST(SpeculationStats, AreSharesAndMeansOfARound) {
    const SpeculationStats none;
    EXPECT_EQ(none.accept_rate(), 0);
    EXPECT_EQ(none.accept_len(), 0);
    EXPECT_EQ(none.alpha(), std::nullopt);
    EXPECT_EQ(none.draft_ms(), 0);
    EXPECT_EQ(none.verify_ms(), 0);

    SpeculationStats one;
    one.rounds = one.proposed = one.accepted = one.proposed_at[0] = one.accepted_at[0] = 1;
    one.draft_ns = 3'000'000;
    one.verify_ns = 5'000'000;
    EXPECT_EQ(one.accept_rate(), 1);
    EXPECT_EQ(one.accept_len(), 2);
    EXPECT_EQ(one.alpha(), 1);
    EXPECT_EQ(one.draft_ms(), 3);
    EXPECT_EQ(one.verify_ms(), 5);
    one.branched = true;
    EXPECT_EQ(one.alpha(), std::nullopt);
}

TEST(SpeculationStats, OfAPartAreTheDifference) {
    SpeculationStats before, now;
    before.rounds = 2, now.rounds = 5;
    before.asked = 10, now.asked = 14;
    before.off = 1, now.off = 6;
    before.proposed = 9, now.proposed = 15;
    before.accepted = 4, now.accepted = 11;
    before.draft_ns = 100, now.draft_ns = 108;
    before.verify_ns = 200, now.verify_ns = 209;
    for (const size_t place : {size_t{0}, now.proposed_at.size() - 1}) {
        before.proposed_at[place] = 3, now.proposed_at[place] = 13;
        before.accepted_at[place] = 2, now.accepted_at[place] = 13;
    }
    const SpeculationStats part = now - before;
    EXPECT_EQ(part.rounds, 3);
    EXPECT_EQ(part.asked, 4);
    EXPECT_EQ(part.off, 5);
    EXPECT_EQ(part.proposed, 6);
    EXPECT_EQ(part.accepted, 7);
    EXPECT_EQ(part.draft_ns, 8U);
    EXPECT_EQ(part.verify_ns, 9U);
    for (const size_t place : {size_t{0}, now.proposed_at.size() - 1}) {
        EXPECT_EQ(part.proposed_at[place], 10);
        EXPECT_EQ(part.accepted_at[place], 11);
    }
}

}  // namespace
}  // namespace trireme::test
