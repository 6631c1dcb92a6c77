// At each round a run notifies its observers, asks them for this rank's status, and lets them change the agreed one.

#include "launch/run/decode_run.h"

#include <array>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/run/agreed_status.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

using testing::Each;
using testing::ElementsAre;

TEST(DecodeRun, CallsObserversInOrder) {
    std::vector<std::string> calls(2);
    run_ranks(2, [&](Comm& comm) {
        std::string& seen = calls[static_cast<size_t>(comm.rank())];
        const RankGroup ranks(comm);
        DecodeRun run(ranks, [] { return 7; });
        run.add({.round = [&](std::span<const int32_t> tokens) { seen += "a" + std::to_string(tokens.size()); }});
        run.add({.round = [&](std::span<const int32_t>) { seen += "b"; },
                 .status = [] { return 0; },
                 .agreed =
                     [&](size_t tokens, int agreed) {
                         seen += "c" + std::to_string(tokens) + std::to_string(agreed);
                         return agreed;
                     }});
        seen += run.round(std::array{4, 5}) ? "stop" : "on";
        seen += run.round({}) ? "stop" : "on";
        run.prefill();
    });
    EXPECT_THAT(calls, Each("a2bc20ona0bc00on"));
}

TEST(DecodeRun, StopsOnAllRanksWithOneStatus) {
    std::vector<int> statuses(3);
    run_ranks(3, [&](Comm& comm) {
        const RankGroup ranks(comm);
        DecodeRun run(ranks, [] { return 0; });
        // The first observer that has a status gives this rank's.
        run.add({.status = [&] { return comm.rank() == 1 ? kReaderGone : 0; }});
        run.add({.status = [&] { return comm.rank() == 1 ? 100 : 0; }});
        EXPECT_TRUE(run.round(std::array{1}));
        statuses[static_cast<size_t>(comm.rank())] = run.status();
    });
    EXPECT_THAT(statuses, Each(kReaderGone));
}

TEST(DecodeRun, AnObserverMayChangeTheAgreedStatus) {
    std::vector<int> statuses(2);
    run_ranks(2, [&](Comm& comm) {
        const RankGroup ranks(comm);
        DecodeRun run(ranks, [] { return 0; });
        run.add({.status = [&] { return comm.rank() == 0 ? kSnapshotAsked : 0; },
                 .agreed = [](size_t, int agreed) { return agreed == kSnapshotAsked ? kSaved : agreed; }});
        EXPECT_TRUE(run.round({}));
        statuses[static_cast<size_t>(comm.rank())] = run.status();
    });
    EXPECT_THAT(statuses, ElementsAre(kSaved, kSaved));
}

}  // namespace
}  // namespace trireme::test
