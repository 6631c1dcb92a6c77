// Acceptance in exact fractions: summed over all outcomes, the emitted token has the verifier's distribution.

#include "kernels/acceptance.h"

#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include <boost/multiprecision/cpp_int.hpp>
#include <gtest/gtest.h>

#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

using Fraction = boost::multiprecision::cpp_rational;
using Weights = std::vector<Fraction>;

Fraction sum_of(const Weights& w) {
    return std::accumulate(w.begin(), w.end(), Fraction(0));
}

/// Enumerates every path through a random procedure. The procedure runs once per path; `probability` is the probability
/// of the path's outcomes.
class EveryWay {
  public:
    /// Returns one of the outcomes 0 .. n - 1; outcome i has probability p[i].
    size_t choose(const Weights& p) {
        if (at_ == path_.size()) path_.push_back(0);
        size_t& i = path_[at_];
        if (at_ == sizes_.size()) sizes_.push_back(p.size());
        ++at_;
        probability *= p[i];
        return i;
    }
    bool happens(const Fraction& p) { return choose({p, 1 - p}) == 0; }

    /// Calls body() for every path, including paths of probability 0.
    void walk(const std::function<void()>& body) {
        for (;;) {
            at_ = 0;
            probability = 1;
            body();
            while (!path_.empty() && path_.back() + 1 == sizes_.back()) path_.pop_back(), sizes_.pop_back();
            if (path_.empty()) return;
            ++path_.back();
        }
    }
    Fraction probability;

  private:
    std::vector<size_t> path_, sizes_;
    size_t at_ = 0;
};

/// One position with its proposed tokens, in the form that settle() requires.
struct ExactPlace {
    using Weight = Fraction;
    using Wide = Fraction;

    EveryWay& chance;
    Weights distribution_p;
    std::vector<Weights> distribution_q;  // by child; earlier siblings already have weight 0
    std::vector<int64_t> tokens;

    const Fraction& p(int64_t i) const { return distribution_p[static_cast<size_t>(i)]; }
    Fraction p_sum() const { return sum_of(distribution_p); }
    /// For earlier siblings it returns a value that no distribution has: settle() must not use it.
    Fraction q(int64_t c, int64_t i) const {
        const auto end = tokens.begin() + c;
        if (std::find(tokens.begin(), end, i) != end) return 7;
        return distribution_q[static_cast<size_t>(c)][static_cast<size_t>(i)];
    }
    Fraction q_sum(int64_t c) const { return sum_of(distribution_q[static_cast<size_t>(c)]); }
    int64_t token(int64_t c) const { return tokens[static_cast<size_t>(c)]; }
    bool happens(int64_t, const Fraction& a, const Fraction& b) const {
        return chance.happens(b == 0 || a >= b ? Fraction(1) : Fraction(a / b));
    }
    template <class Weigh>
    Weights weighed(const Weigh& weigh) const {
        Weights w;
        for (size_t i = 0; i < distribution_p.size(); ++i) w.push_back(weigh(static_cast<int64_t>(i)));
        return w;
    }
    template <class Weigh>
    void become(const Weigh& weigh) {
        const Weights w = weighed(weigh);
        if (sum_of(w) > 0) distribution_p = w;  // else nothing can be rejected: a path of probability 0
    }
    template <class Weigh>
    int64_t draw(const Weigh& weigh) const {
        Weights w = weighed(weigh);
        const Fraction all = sum_of(w);
        if (all == 0) return -1;
        for (Fraction& x : w) x /= all;
        return static_cast<int64_t>(chance.choose(w));
    }
};

/// Small random distributions; some weights are zero, some are equal.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    size_t below(size_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<size_t>(state_ >> 33) % n;
    }
    Weights distribution(size_t n) {
        Weights w(n);
        do {
            for (Fraction& x : w) x = static_cast<int>(below(3) == 0 ? 0 : 1 + below(9));
        } while (sum_of(w) == 0);
        return w;
    }

  private:
    uint64_t state_;
};

void expect_distribution(const Weights& emitted, const Weights& distribution) {
    const Fraction all = sum_of(distribution);
    ASSERT_EQ(sum_of(emitted), 1);
    for (size_t i = 0; i < distribution.size(); ++i)
        ASSERT_EQ(emitted[i], Fraction(distribution[i] / all)) << "token " << i;
}

Weights normal(const Weights& w) {
    Weights p = w;
    const Fraction all = sum_of(w);
    for (Fraction& x : p) x /= all;
    return p;
}

/// Draws `k` siblings from q without replacement, and returns the token that settle() emits.
int64_t settled(EveryWay& chance, const Weights& p, const Weights& q, size_t k) {
    ExactPlace place{.chance = chance, .distribution_p = p, .distribution_q = {}, .tokens = {}};
    Weights left = q;
    for (size_t c = 0; c < k && sum_of(left) > 0; ++c) {
        place.distribution_q.push_back(left);
        place.tokens.push_back(static_cast<int64_t>(chance.choose(normal(left))));
        left[static_cast<size_t>(place.tokens.back())] = 0;
    }
    int64_t drawn = -1;
    const int64_t stays = settle(place, static_cast<int64_t>(place.tokens.size()), drawn);
    return stays >= 0 ? place.token(stays) : drawn;
}

/// Distribution of the emitted token, summed over all paths.
Weights emitted(size_t vocab, const std::function<int64_t(EveryWay&)>& round) {
    Weights distribution(vocab);
    EveryWay chance;
    chance.walk([&] {
        const int64_t token = round(chance);
        distribution[static_cast<size_t>(token)] += chance.probability;
    });
    return distribution;
}

/// Number of random distributions per test: 400 by default (20 with sanitizers); tests/full.sh sets
/// TRIREME_TEST_DISTRIBUTIONS.
int distributions() {
    const char* many = std::getenv("TRIREME_TEST_DISTRIBUTIONS");
    return many == nullptr ? (kSanitized ? 20 : 400) : std::atoi(many);
}

TEST(Acceptance, OfOneProposalKeepsTheVerifiersDistribution) {
    Random random(1);
    for (int i = 0; i < distributions(); ++i) {
        const size_t n = 2 + random.below(5);
        const Weights p = random.distribution(n), q = random.below(8) == 0 ? p : random.distribution(n);
        expect_distribution(emitted(n, [&](EveryWay& chance) { return settled(chance, p, q, 1); }), p);
    }
}

TEST(Acceptance, OfNoProposalSamplesTheVerifiersDistribution) {
    Random random(2);
    for (int i = 0; i < 100; ++i) {
        const Weights p = random.distribution(2 + random.below(5));
        expect_distribution(emitted(p.size(), [&](EveryWay& chance) { return settled(chance, p, p, 0); }), p);
    }
}

/// The inner level's token is proposed to the outer level, with the inner verifier's distribution r.
int64_t two_levels(EveryWay& chance, const Weights& p, const Weights& r, const Weights& q, bool released_rule) {
    int64_t proposed = settled(chance, r, q, 1);
    if (released_rule) {  // TriForce: after a rejection it samples from r, not from the residual (triforce.md 5.5)
        proposed = static_cast<int64_t>(chance.choose(normal(q)));
        const auto x = static_cast<size_t>(proposed);
        const Fraction ratio = normal(r)[x] / normal(q)[x];
        if (!chance.happens(ratio > 1 ? Fraction(1) : ratio)) proposed = static_cast<int64_t>(chance.choose(normal(r)));
    }
    ExactPlace place{.chance = chance, .distribution_p = p, .distribution_q = {r}, .tokens = {proposed}};
    int64_t drawn = -1;
    return settle(place, 1, drawn) < 0 ? drawn : proposed;
}

TEST(Acceptance, OfTwoLevelsKeepsTheVerifiersDistribution) {
    Random random(3);
    for (int i = 0; i < distributions(); ++i) {
        const size_t n = 2 + random.below(i % 10 == 0 ? 5 : 3);
        const Weights p = random.distribution(n), r = random.distribution(n), q = random.distribution(n);
        expect_distribution(emitted(n, [&](EveryWay& chance) { return two_levels(chance, p, r, q, false); }), p);
    }
}

TEST(Acceptance, ByTheReleasedRuleOfTriForceDoesNot) {
    const Weights p = {1, 2, 3}, r = {3, 2, 1}, q = {1, 4, 1};
    const Weights biased = emitted(3, [&](EveryWay& chance) { return two_levels(chance, p, r, q, true); });
    EXPECT_EQ(sum_of(biased), 1);
    EXPECT_NE(biased, normal(p));
}

TEST(Acceptance, OfSiblingsDrawnWithoutReplacementKeepsTheVerifiersDistribution) {
    Random random(4);
    for (int i = 0; i < distributions(); ++i) {
        const size_t n = 2 + random.below(i % 10 == 0 ? 4 : 2), k = 2 + random.below(n - 1);
        const Weights p = random.distribution(n), q = random.distribution(n);
        expect_distribution(emitted(n, [&](EveryWay& chance) { return settled(chance, p, q, k); }), p);
    }
}

TEST(Acceptance, OfTheLikeliestAsPointMassesKeepsTheVerifiersDistribution) {
    Random random(5);
    for (int i = 0; i < 1000; ++i) {
        const size_t n = 2 + random.below(5), k = 1 + random.below(n);
        const Weights p = random.distribution(n);
        expect_distribution(emitted(n,
                                    [&](EveryWay& chance) {
                                        ExactPlace place{
                                            .chance = chance, .distribution_p = p, .distribution_q = {}, .tokens = {}};
                                        for (size_t c = 0; c < k; ++c) {
                                            place.tokens.push_back(static_cast<int64_t>((c * 5 + 1) % n));
                                            place.distribution_q.emplace_back(n, 0);
                                            place.distribution_q.back()[(c * 5 + 1) % n] = 1;
                                        }
                                        int64_t drawn = -1;
                                        const int64_t stays = settle(place, static_cast<int64_t>(k), drawn);
                                        return stays >= 0 ? place.token(stays) : drawn;
                                    }),
                            p);
    }
}

}  // namespace
}  // namespace trireme::test
