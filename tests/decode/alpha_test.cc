// alpha_of() on worked numbers: TriForce's reports state the fraction of accepted tokens, its paper states alpha.

#include "decode/alpha.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "decode/speculate.h"

namespace trireme::test {
namespace {

TEST(Alpha, IsWhatTriForceReports) {
    struct Case {
        int64_t accepted_of_6000;
        double alpha;
    };
    for (const Case& c : {Case{4320, 0.907}, {4434, 0.914}, {4536, 0.921}}) {  // 0.720, 0.739, 0.756 of g = 6
        const std::vector<int64_t> six(6, 1000);
        const double a = alpha_of(c.accepted_of_6000, six);
        EXPECT_NEAR(a, c.alpha, 5e-4);
        const double gf = static_cast<double>(c.accepted_of_6000) / 1000;
        EXPECT_NEAR(std::pow(a, 7) - (1 + gf) * a + gf, 0, 1e-12);
    }
}

TEST(Alpha, OfOneTokenIsTheFraction) {
    const std::vector<int64_t> one = {8};
    for (int64_t n = 0; n <= 8; ++n) EXPECT_NEAR(alpha_of(n, one), static_cast<double>(n) / 8, 1e-15);
}

TEST(Alpha, OfRoundsOfManyLengthsIsTheOneThatMadeThem) {
    const std::vector<int64_t> proposed = {1 << 20, 3 << 18, 1 << 19, 1 << 10};
    for (const double alpha : {0.25, 0.5, 0.75}) {
        double accepted = 0;
        for (size_t d = 0; d < proposed.size(); ++d) {
            accepted += static_cast<double>(proposed[d]) * std::pow(alpha, static_cast<double>(d + 1));
        }
        EXPECT_NEAR(alpha_of(std::llround(accepted), proposed), alpha, 1e-6);
    }
}

TEST(Alpha, HasItsEnds) {
    const std::vector<int64_t> proposed = {10, 10, 4};
    EXPECT_EQ(alpha_of(0, proposed), 0);
    EXPECT_EQ(alpha_of(24, proposed), 1);
    EXPECT_EQ(alpha_of(0, {}), 0);
}

TEST(Alpha, IsThatOfChainsOnly) {
    SpeculationStats stats;
    EXPECT_FALSE(stats.alpha().has_value());
    stats.proposed = 4;
    stats.accepted = 2;
    stats.proposed_at[0] = 4;
    EXPECT_NEAR(stats.alpha().value(), 0.5, 1e-15);
    stats.branched = true;
    EXPECT_FALSE(stats.alpha().has_value());
}

}  // namespace
}  // namespace trireme::test
