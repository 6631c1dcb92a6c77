// Acceptance in exact fractions: over all that can happen, what stands at a place has the verifier's law.

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

/// Goes through every way that a procedure with chances can go: it is run again and again, each time with other
/// outcomes, and `probability` says how likely those are.
class EveryWay {
  public:
    /// One of outcomes 0 .. n - 1, outcome i with this probability.
    size_t choose(const Weights& p) {
        if (at_ == path_.size()) path_.push_back(0);
        size_t& i = path_[at_];
        if (at_ == sizes_.size()) sizes_.push_back(p.size());
        ++at_;
        probability *= p[i];
        return i;
    }
    bool happens(const Fraction& p) { return choose({p, 1 - p}) == 0; }

    /// Calls body() for every way; ways of probability 0 too.
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

/// One place with its proposals, as settle() wants it.
struct ExactPlace {
    using Weight = Fraction;
    using Wide = Fraction;

    EveryWay& chance;
    Weights law_p;
    std::vector<Weights> law_q;  // by child, elders left out already
    std::vector<int64_t> tokens;

    const Fraction& p(int64_t i) const { return law_p[static_cast<size_t>(i)]; }
    Fraction p_sum() const { return sum_of(law_p); }
    /// At elders something that no law has: it must not matter.
    Fraction q(int64_t c, int64_t i) const {
        const auto end = tokens.begin() + c;
        if (std::find(tokens.begin(), end, i) != end) return 7;
        return law_q[static_cast<size_t>(c)][static_cast<size_t>(i)];
    }
    Fraction q_sum(int64_t c) const { return sum_of(law_q[static_cast<size_t>(c)]); }
    int64_t token(int64_t c) const { return tokens[static_cast<size_t>(c)]; }
    bool happens(int64_t, const Fraction& a, const Fraction& b) const {
        return chance.happens(b == 0 || a >= b ? Fraction(1) : Fraction(a / b));
    }
    template <class Weigh>
    Weights weighed(const Weigh& weigh) const {
        Weights w;
        for (size_t i = 0; i < law_p.size(); ++i) w.push_back(weigh(static_cast<int64_t>(i)));
        return w;
    }
    template <class Weigh>
    void become(const Weigh& weigh) {
        const Weights w = weighed(weigh);
        if (sum_of(w) > 0) law_p = w;  // else nothing was refused: a way of probability 0
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

/// Small random laws, zeros and equal ones among them.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    size_t below(size_t n) {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<size_t>(state_ >> 33) % n;
    }
    Weights law(size_t n) {
        Weights w(n);
        do {
            for (Fraction& x : w) x = static_cast<int>(below(3) == 0 ? 0 : 1 + below(9));
        } while (sum_of(w) == 0);
        return w;
    }

  private:
    uint64_t state_;
};

void expect_law(const Weights& emitted, const Weights& law) {
    const Fraction all = sum_of(law);
    ASSERT_EQ(sum_of(emitted), 1);
    for (size_t i = 0; i < law.size(); ++i) ASSERT_EQ(emitted[i], Fraction(law[i] / all)) << "token " << i;
}

Weights normal(const Weights& w) {
    Weights p = w;
    const Fraction all = sum_of(w);
    for (Fraction& x : p) x /= all;
    return p;
}

/// Draws `k` siblings from q one by one, each from what its elders leave, and settles the place.
int64_t settled(EveryWay& chance, const Weights& p, const Weights& q, size_t k) {
    ExactPlace place{.chance = chance, .law_p = p, .law_q = {}, .tokens = {}};
    Weights left = q;
    for (size_t c = 0; c < k && sum_of(left) > 0; ++c) {
        place.law_q.push_back(left);
        place.tokens.push_back(static_cast<int64_t>(chance.choose(normal(left))));
        left[static_cast<size_t>(place.tokens.back())] = 0;
    }
    int64_t drawn = -1;
    const int64_t stays = settle(place, static_cast<int64_t>(place.tokens.size()), drawn);
    return stays >= 0 ? place.token(stays) : drawn;
}

/// What stands at the place, over all that can happen.
Weights emitted(size_t vocab, const std::function<int64_t(EveryWay&)>& round) {
    Weights law(vocab);
    EveryWay chance;
    chance.walk([&] {
        const int64_t token = round(chance);
        law[static_cast<size_t>(token)] += chance.probability;
    });
    return law;
}

/// Random laws of each test: a few hundred in every run, TRIREME_TEST_LAWS in tests/full.sh.
int laws() {
    const char* many = std::getenv("TRIREME_TEST_LAWS");
    return many == nullptr ? (kSanitized ? 20 : 400) : std::atoi(many);
}

TEST(Acceptance, OfOneProposalLeavesTheVerifiersLaw) {
    Random random(1);
    for (int i = 0; i < laws(); ++i) {
        const size_t n = 2 + random.below(5);
        const Weights p = random.law(n), q = random.below(8) == 0 ? p : random.law(n);
        expect_law(emitted(n, [&](EveryWay& chance) { return settled(chance, p, q, 1); }), p);
    }
}

TEST(Acceptance, OfNoProposalDrawsFromTheVerifiersLaw) {
    Random random(2);
    for (int i = 0; i < 100; ++i) {
        const Weights p = random.law(2 + random.below(5));
        expect_law(emitted(p.size(), [&](EveryWay& chance) { return settled(chance, p, p, 0); }), p);
    }
}

/// What the inner level says is the outer one's proposal, with the inner verifier's law r.
int64_t two_levels(EveryWay& chance, const Weights& p, const Weights& r, const Weights& q, bool released_rule) {
    int64_t proposed = settled(chance, r, q, 1);
    if (released_rule) {  // TriForce's: a refusal draws from r, not from the residual (triforce.md 5.5)
        proposed = static_cast<int64_t>(chance.choose(normal(q)));
        const auto x = static_cast<size_t>(proposed);
        const Fraction ratio = normal(r)[x] / normal(q)[x];
        if (!chance.happens(ratio > 1 ? Fraction(1) : ratio)) proposed = static_cast<int64_t>(chance.choose(normal(r)));
    }
    ExactPlace place{.chance = chance, .law_p = p, .law_q = {r}, .tokens = {proposed}};
    int64_t drawn = -1;
    return settle(place, 1, drawn) < 0 ? drawn : proposed;
}

TEST(Acceptance, OfTwoLevelsLeavesTheVerifiersLaw) {
    Random random(3);
    for (int i = 0; i < laws(); ++i) {
        const size_t n = 2 + random.below(i % 10 == 0 ? 5 : 3);
        const Weights p = random.law(n), r = random.law(n), q = random.law(n);
        expect_law(emitted(n, [&](EveryWay& chance) { return two_levels(chance, p, r, q, false); }), p);
    }
}

TEST(Acceptance, ByTheReleasedRuleOfTriForceDoesNot) {
    const Weights p = {1, 2, 3}, r = {3, 2, 1}, q = {1, 4, 1};
    const Weights biased = emitted(3, [&](EveryWay& chance) { return two_levels(chance, p, r, q, true); });
    EXPECT_EQ(sum_of(biased), 1);
    EXPECT_NE(biased, normal(p));
}

TEST(Acceptance, OfSiblingsDrawnWithoutReplacementLeavesTheVerifiersLaw) {
    Random random(4);
    for (int i = 0; i < laws(); ++i) {
        const size_t n = 2 + random.below(i % 10 == 0 ? 4 : 2), k = 2 + random.below(n - 1);
        const Weights p = random.law(n), q = random.law(n);
        expect_law(emitted(n, [&](EveryWay& chance) { return settled(chance, p, q, k); }), p);
    }
}

TEST(Acceptance, OfTheLikeliestAsPointMassesLeavesTheVerifiersLaw) {
    Random random(5);
    for (int i = 0; i < 1000; ++i) {
        const size_t n = 2 + random.below(5), k = 1 + random.below(n);
        const Weights p = random.law(n);
        expect_law(emitted(n,
                           [&](EveryWay& chance) {
                               ExactPlace place{.chance = chance, .law_p = p, .law_q = {}, .tokens = {}};
                               for (size_t c = 0; c < k; ++c) {
                                   place.tokens.push_back(static_cast<int64_t>((c * 5 + 1) % n));
                                   place.law_q.emplace_back(n, 0);
                                   place.law_q.back()[(c * 5 + 1) % n] = 1;
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
