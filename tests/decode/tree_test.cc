// Trees that a model proposes: the tokens of plain decoding, and more tokens per round than a chain of the same depth.

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "decode/drafter.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

constexpr double kWide[] = {0.4, 0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05};

double accept_len(const Speculate& s) {
    return static_cast<double>(s.stats().accepted + s.stats().rounds) / static_cast<double>(s.stats().rounds);
}

class Tree : public KjvPrompt {
  protected:
    Engine draft{data_path("models/kjv-draft"), kExact, comm};
    const SamplingParams sampled{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

    TreeDrafter drafter(const TreeDrafter::Options& options, const SamplingParams& sampling) {
        return {"tree", draft.device(), *draft, sampling, 5, options};
    }
};

TEST_F(Tree, OfAnySizeIsPlainDecodingWhenGreedy) {
    request.max_new = 60;
    const std::vector<int32_t> plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    for (int64_t size = 1; size < kMaxRows; size += kSanitized ? 31 : size < 8 ? 1 : 11) {
        for (const int64_t depth : {1, 3, 6, 63}) {
            if (kSanitized && depth != 3 && depth != 63) continue;
            for (const std::span<const double> acceptance : {std::span<const double>(kSequoiaAcceptance), {kWide}}) {
                TreeDrafter tree = drafter({.size = size, .depth = depth, .acceptance = acceptance}, request.sampling);
                Speculate speculate(tree, *engine, request.sampling, 0);

                EXPECT_EQ(ids_of(speculate, request, stats), plain) << size << " " << depth;
                EXPECT_EQ(stats.new_tokens, stats.rounds + speculate.stats().accepted);
                EXPECT_GT(speculate.stats().accepted, 0);
            }
        }
    }
}

// If the target drafts for itself, every round accepts a path down to a leaf.
TEST_F(Tree, OfTheModelItselfStaysToItsLeaves) {
    request.max_new = 57;  // the token of the prompt's logits, and eight rounds of seven
    const std::vector<int32_t> plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    Level same(engine.device(), comm, engine.weights(), {.k_type = DType::kF32, .v_type = DType::kF32});
    TreeDrafter tree("tree", engine.device(), same, request.sampling, 0, {.size = 63, .depth = 6});
    Speculate speculate(tree, *engine, request.sampling, 0);

    EXPECT_EQ(ids_of(speculate, request, stats), plain);
    EXPECT_EQ(speculate.stats().rounds, 8);
    EXPECT_EQ(speculate.stats().accepted, 48);
}

TEST_F(Tree, IsPlainDecodingOnRanks) {
    request.max_new = 40;
    for (const double temperature : {0.0, 0.8}) {
        const SamplingParams sampling{.temperature = temperature};
        std::vector<std::vector<int32_t>> ids(2), plain(2);
        run_ranks(2, [&](Comm& ranks) {
            Engine target(data_path("models/kjv-target"), kExact, ranks);
            SelfComm alone;
            Engine small(data_path("models/kjv-draft"), kExact, alone);
            TreeDrafter tree("tree", small.device(), *small, sampling, 3, {.size = 40, .depth = 5});
            Speculate speculate(tree, *target, sampling, 3);
            GenerateStats s;
            const auto rank = static_cast<size_t>(ranks.rank());
            ids[rank] = ids_of(speculate, request, s);
            plain[rank] = generate(*target, nullptr, request, s).at(0).ids;
        });
        EXPECT_EQ(ids[0], ids[1]);
        EXPECT_TRUE(temperature > 0 || ids[0] == plain[0]);
    }
}

// Issue "Speculation": a tree of 32 or more nodes beats the chain of equal depth.
TEST_F(Tree, GivesMoreTokensARoundThanTheChainOfItsDepth) {
    request.max_new = 300;
    for (const double temperature : {0.0, 0.6, 1.0}) {
        if (kSanitized && temperature > 0) continue;
        SamplingParams sampling = sampled;
        sampling.temperature = temperature;
        request.num_samples = temperature == 0 ? 1 : 4;
        Drafter chain("chain", draft.device(), *draft, sampling, 1, 1, 6);
        Speculate by_chain(chain, *engine, sampling, 1);
        ids_of(by_chain, request, stats);
        for (const int64_t size : {32, 63}) {
            TreeDrafter tree("tree", draft.device(), *draft, sampling, 1, {.size = size, .depth = 6});
            Speculate by_tree(tree, *engine, sampling, 1);
            ids_of(by_tree, request, stats);
            EXPECT_GT(accept_len(by_tree), accept_len(by_chain)) << temperature << " " << size;
            std::printf("temperature %.1f: accept_len %.2f of a tree of %d nodes, %.2f of the chain\n", temperature,
                        accept_len(by_tree), static_cast<int>(size), accept_len(by_chain));
        }
    }
}

/// Tokens of a proposal by their parents.
std::map<int32_t, std::vector<int32_t>> families(std::span<const Proposed> proposal) {
    std::map<int32_t, std::vector<int32_t>> children;
    for (const Proposed& p : proposal) children[p.parent].push_back(p.token);
    return children;
}

TEST_F(Tree, ProposesTheLikeliestWhenGreedy) {
    TreeDrafter tree = drafter({.size = 40, .depth = 4, .acceptance = kWide}, request.sampling);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    tree.resolve({}, 17);
    const auto proposed = tree.propose(63);
    const std::vector<Proposed> proposal(proposed.begin(), proposed.end());
    ASSERT_EQ(proposal.size(), 40u);

    Level plain(draft.device(), comm, draft.weights(), {.k_type = DType::kF32, .v_type = DType::kF32});
    plain.prefill(0, request.prompt);
    for (const auto& [parent, tokens] : families(proposal)) {
        std::vector<int32_t> path;  // from the parent up
        for (int32_t i = parent; i >= 0; i = proposal[static_cast<size_t>(i)].parent) {
            path.push_back(proposal[static_cast<size_t>(i)].token);
        }
        path.push_back(17);
        std::vector<Row> rows;
        for (auto token = path.rbegin(); token != path.rend(); ++token) {
            const auto r = static_cast<int32_t>(rows.size());
            rows.push_back(
                {.token = *token, .position = static_cast<int32_t>(request.prompt.size()) + r, .parent = r - 1});
        }
        plain.forward(rows);
        const Matrix<float> logits = plain.logits().host().as<float>();
        const float* x = logits.row(logits.rows - 1);
        std::vector<int32_t> order(1024);
        for (int32_t id = 0; id < 1024; ++id) order[static_cast<size_t>(id)] = id;
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
        order.resize(tokens.size());
        EXPECT_EQ(tokens, order) << "below " << parent;
    }
    for (const Proposed& p : proposal) EXPECT_EQ(p.distribution.row.data, nullptr);  // point masses
}

// The proposal depends on the sequence alone, whatever was accepted, rolled back or settled before.
TEST_F(Tree, ProposesTheSameAfterAnyHistory) {
    const TreeDrafter::Options options = {.size = 16, .depth = 4, .acceptance = kWide};
    Level other(draft.device(), comm, draft.weights(), {.k_type = DType::kF32, .v_type = DType::kF32});
    TreeDrafter tree = drafter(options, request.sampling);
    TreeDrafter fresh("fresh", draft.device(), other, request.sampling, 5, options);
    tree.prefill(request.prompt, {});
    fresh.prefill(request.prompt, {});
    uint32_t state = 7;
    const auto random = [&](size_t n) {
        state = state * 1664525 + 1013904223;
        return static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(n));
    };
    for (uint32_t sample = 0; sample < 12; ++sample) {
        tree.begin(sample);
        std::vector<int32_t> text;
        while (text.size() < 36) {
            const auto proposed = tree.propose(63);
            const std::vector<Proposed> proposal(proposed.begin(), proposed.end());
            fresh.begin(0);
            for (const int32_t token : text) fresh.resolve({}, token);
            const auto wanted = fresh.propose(63);
            ASSERT_EQ(families(proposal), families({wanted.data(), wanted.size()})) << "after " << text.size();
            fresh.resolve({}, 0);

            std::vector<int32_t> path;
            for (size_t i = 0; i < proposal.size(); ++i) {  // a random path from the root
                if (proposal[i].parent == (path.empty() ? -1 : path.back()) && random(3) > 0) {
                    path.push_back(static_cast<int32_t>(i));
                    text.push_back(proposal[i].token);
                }
            }
            text.push_back(random(1024));
            tree.resolve(path, text.back());
            // Not every cache can roll back settled tokens, so rewind() comes before commit().
            if (random(3) == 0) {
                const auto n = static_cast<size_t>(random(std::min<size_t>(path.size() + 1, text.size())));
                text.resize(text.size() - n);
                text.push_back(random(1024));
                tree.rewind(static_cast<int64_t>(n), text.back());
            }
            if (random(2) == 0 || draft->cache().staged().size() > 32) tree.commit();
        }
    }
}

TEST_F(Tree, IsNoDeeperThanTheLimitAndTheContext) {
    TreeDrafter tree = drafter({.size = 63, .depth = 9}, request.sampling);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    tree.resolve({}, 5);
    for (const int64_t limit : {1, 2, 5, 9, 40}) {
        int64_t deepest = 0;
        std::vector<int64_t> depth;
        for (const Proposed& p : tree.propose(limit)) {
            depth.push_back(p.parent < 0 ? 1 : depth[static_cast<size_t>(p.parent)] + 1);
            deepest = std::max(deepest, depth.back());
        }
        EXPECT_EQ(deepest, std::min<int64_t>(limit, 9));
        tree.resolve({}, 6);
        tree.commit();
    }
    EngineOptions small = kExact;
    small.context = static_cast<int64_t>(request.prompt.size()) + 9;
    Engine target(data_path("models/kjv-target"), small, comm);
    Engine little(data_path("models/kjv-draft"), small, comm);
    request.max_new = -1;
    const std::vector<int32_t> plain = generate(*target, nullptr, request, stats).at(0).ids;
    TreeDrafter at_end("tree", little.device(), *little, request.sampling, 0, {.size = 63, .depth = 8});
    Speculate speculate(at_end, *target, request.sampling, 0);
    EXPECT_EQ(ids_of(speculate, request, stats), plain);
    EXPECT_EQ(plain.size(), 9u);
}

TEST_F(Tree, FindsRoomWithStagedRows) {
    TreeDrafter tree = drafter({.size = 63, .depth = 20}, request.sampling);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    size_t least = 63;
    for (int i = 0; i < 40; ++i) {  // without commit(), trees shrink to the rows that are left, and finally to none
        tree.resolve({}, i);
        least = std::min(least, tree.propose(63).size());
    }
    EXPECT_EQ(least, 0u);
    EXPECT_LE(draft->cache().staged().size(), kMaxRows);
}

// Of chains, the longest that the free rows allow: one row for the pending token, one for each token but the last.
TEST_F(Tree, UsesEveryFreeRow) {
    constexpr double kChain[] = {0.9};
    TreeDrafter tree = drafter({.size = 63, .depth = 20, .acceptance = kChain}, request.sampling);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    EXPECT_TRUE(tree.propose(0).empty());
    int64_t left = kMaxRows;  // rows stay staged until commit()
    for (const int64_t limit : {20, 20, 20, 3, 20, 20}) {
        tree.resolve({}, 9);
        const int64_t length = std::min(limit, left);
        EXPECT_EQ(std::ssize(tree.propose(limit)), length) << left;
        left -= length;
    }
}

TEST_F(Tree, HasFewerTokensThanAForwardHasRows) {
    EXPECT_NO_THROW(drafter({.size = kMaxRows - 1, .depth = 1}, request.sampling));
    EXPECT_THROW(drafter({.size = kMaxRows, .depth = 1}, request.sampling), Error);
}

// Token 0 is a token as any other, here a leaf: nothing is accepted after it, and the sequence then ends with it.
TEST_F(Tree, AcceptsTokenZero) {
    SamplingParams any = sampled;
    any.temperature = 100;
    const std::vector<double> alike(40, 0.02);
    TreeDrafter tree = drafter({.size = 40, .depth = 1, .acceptance = alike}, any);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    int32_t zero = -1;
    for (int round = 0; round < 1000 && zero < 0; ++round) {
        const std::span<const Proposed> proposed = tree.propose(63);
        draft->stream().synchronize();
        for (size_t i = 0; i < proposed.size(); ++i) {
            if (proposed[i].token == 0) zero = static_cast<int32_t>(i);
        }
        EXPECT_THROW(tree.resolve(std::vector<int32_t>{static_cast<int32_t>(proposed.size())}, -1), Error);
    }
    ASSERT_GE(zero, 0);
    EXPECT_THROW(tree.resolve(std::vector<int32_t>{zero, 1}, -1), Error);
    tree.resolve(std::vector<int32_t>{zero}, -1);
    EXPECT_NO_THROW(tree.rewind(1, -1));
    EXPECT_THROW(tree.rewind(1, -1), Error) << "that would be the prompt's";
}

TEST_F(Tree, LeavesNothingStagedOnceItIsSettled) {
    TreeDrafter tree = drafter({.size = 63, .depth = 6}, request.sampling);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    for (int i = 0; i < 3; ++i) {  // the first tree starts from the prompt's logits
        EXPECT_EQ(tree.propose(63).size(), 63u);
        EXPECT_GT(draft->cache().staged().size(), 0);
        tree.resolve({}, i);
        tree.commit();
        EXPECT_EQ(draft->cache().staged().size(), 0);
    }
}

TEST_F(Tree, SiblingsDifferAndAreNoMoreThanTheDistributionHas) {
    SamplingParams three = sampled;
    three.top_k = 3;
    for (const SamplingParams& sampling : {sampled, three}) {
        TreeDrafter tree = drafter({.size = 40, .depth = 4, .acceptance = kWide}, sampling);
        tree.prefill(request.prompt, {});
        tree.begin(0);
        const auto proposal = tree.propose(63);
        size_t most = 0;
        for (const auto& [parent, tokens] : families(proposal)) {
            EXPECT_EQ(std::set<int32_t>(tokens.begin(), tokens.end()).size(), tokens.size());
            most = std::max(most, tokens.size());
        }
        EXPECT_EQ(most, sampling.top_k == 3 ? 3u : std::size(kWide));
        for (const Proposed& p : proposal) EXPECT_NE(p.distribution.row.data, nullptr);
        for (size_t i = 1; i < proposal.size(); ++i) {
            EXPECT_EQ(proposal[i].parent == proposal[i - 1].parent,
                      proposal[i].distribution.distribution == proposal[i - 1].distribution.distribution)
                << i;
        }
    }
}

// A tree of one token, drawn, uses the one distribution that the tree has room for, in every round.
TEST_F(Tree, OfOneTokenHoldsOneDistribution) {
    TreeDrafter tree = drafter({.size = 1, .depth = 1}, sampled);
    tree.prefill(request.prompt, {});
    tree.begin(0);
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(tree.propose(63).size(), 1u);
        tree.resolve({}, 9);
    }
}

// Uniforms are a function of sample, round and node.
TEST_F(Tree, EveryRoundSamplesAgain) {
    TreeDrafter tree = drafter({.size = 20, .depth = 3, .acceptance = kWide}, sampled);
    tree.prefill(request.prompt, {});
    const auto propose = [&] { return families(tree.propose(63)); };
    tree.begin(0);
    tree.resolve({}, 9);
    const auto first = propose();
    tree.resolve({}, 8);
    tree.rewind(2, 9);
    const auto again = propose();
    tree.begin(1);
    tree.resolve({}, 9);
    const auto other = propose();
    tree.begin(0);
    tree.resolve({}, 9);
    EXPECT_EQ(propose(), first);
    EXPECT_NE(again, first);
    EXPECT_NE(other, first);
    EXPECT_NE(other, again);
}

}  // namespace
}  // namespace trireme::test
