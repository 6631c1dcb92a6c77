// Once per round, ranks compare their sampled tokens and the digests of their chains.

#include "launch/run/agreed_status.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/run/outcome.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

using testing::Each;
using testing::HasSubstr;

struct RankSays {
    int status = 0;
    std::vector<int32_t> tokens = {1, 2};
    uint64_t chain = 7;
};

/// The result on each rank: the agreed status, or the exit code and message it ends with.
std::vector<std::string> agreed(const std::vector<RankSays>& ranks) {
    std::vector<std::string> all(ranks.size());
    run_ranks(static_cast<int>(ranks.size()), [&](Comm& comm) {
        const auto me = static_cast<size_t>(comm.rank());
        int status = -1;
        const Outcome o = attempt(
            [&] { status = agreed_status(RankGroup(comm), ranks[me].status, ranks[me].tokens, ranks[me].chain); });
        all[me] = o.status == 0 ? fmt::format("{}", status) : fmt::format("ends with {}: {}", o.status, o.message);
    });
    return all;
}

TEST(AgreedStatus, IsTheLargest) {
    EXPECT_THAT(agreed({{}, {}, {}}), Each("0"));
    EXPECT_THAT(agreed({{}, {.status = 1}, {}}), Each("1"));
}

TEST(AgreedStatus, EndsAllRanksIfTheirTokensDiffer) {
    for (const std::vector<RankSays>& ranks :
         {std::vector<RankSays>{{}, {.tokens = {1, 3}}, {}}, {{}, {.tokens = {}}}}) {
        EXPECT_THAT(agreed(ranks), Each(HasSubstr("ends with 70: ranks drew")));
    }
}

TEST(AgreedStatus, EndsAllRanksIfTheirChainsDiffer) {
    EXPECT_THAT(agreed({{}, {}, {.chain = 8}}), Each(HasSubstr("ends with 70: ranks proposed")));
}

}  // namespace
}  // namespace trireme::test
