#include "launch/run/placement.h"

#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/run/binding.h"

namespace trireme::test {
namespace {

Cpus range(int begin, int end) {
    Cpus cpus(static_cast<size_t>(end - begin));
    std::iota(cpus.begin(), cpus.end(), begin);
    return cpus;
}

/// n cores with one hardware thread each.
std::vector<Cpus> plain_cores(int n) {
    std::vector<Cpus> cores;
    for (int c = 0; c < n; ++c) cores.push_back({c});
    return cores;
}

/// n cores with two hardware threads each; the second threads are numbered after all first ones, as on most machines.
std::vector<Cpus> twin_cores(int n) {
    std::vector<Cpus> cores;
    for (int c = 0; c < n; ++c) cores.push_back({c, c + n});
    return cores;
}

RankEnv mpirun(int local_rank, int local_size) {
    return {"mpirun", local_rank, local_size, local_rank, local_size};
}

/// A node with these cores; mpirun has bound this rank to `bound`, and the job may use `job`.
NodeCores node_of(std::vector<Cpus> cores, Cpus bound, Cpus job) {
    NodeCores node;
    node.cores = std::move(cores);
    node.bound = std::move(bound);
    node.job = std::move(job);
    node.job_cpus = std::ssize(node.job);
    return node;
}

TEST(Placement, GivesEachRankAContiguousShareOfTheJobsCores) {
    const NodeCores node = node_of(plain_cores(16), {0}, range(0, 16));

    EXPECT_EQ(place(mpirun(0, 2), node, true).cpus, range(0, 8));
    EXPECT_EQ(place(mpirun(1, 2), node, true).cpus, range(8, 16));
    EXPECT_EQ(place(mpirun(1, 2), node, true).threads, 8);
    EXPECT_EQ(place(mpirun(0, 1), node, true).cpus, range(0, 16));
    EXPECT_EQ(place(mpirun(0, 2), node, true).line,
              "mpirun bound this rank to cpus 0: now 0-7, 1 of 2 local ranks, 8 compute threads (--bind none keeps "
              "mpirun's)");
}

TEST(Placement, SplitsCoresNotHardwareThreads) {
    const Placement p = place(mpirun(1, 2), node_of(twin_cores(4), {0, 4}, range(0, 8)), true);

    EXPECT_EQ(p.cpus, (Cpus{2, 3, 6, 7}));
    EXPECT_EQ(p.threads, 2);
}

TEST(Placement, StaysWithinWhatTheJobMayUse) {
    const NodeCores node = node_of(twin_cores(8), {5}, {3, 4, 5, 6, 11});

    EXPECT_EQ(place(mpirun(0, 2), node, true).cpus, (Cpus{3, 4, 11}));
    EXPECT_EQ(place(mpirun(1, 2), node, true).cpus, (Cpus{5, 6}));
}

TEST(Placement, StaysWhereItAlreadyHasItsShare) {
    const Placement p = place(mpirun(1, 2), node_of(plain_cores(2), {1}, {0, 1}), true);

    EXPECT_TRUE(p.cpus.empty());
    EXPECT_EQ(p.line, "cpus 1 (mpirun's binding is this rank's share), 1 compute thread");
}

TEST(Placement, EveryCoreIsSomebodysAndOneRanksOnly) {
    for (int cores = 1; cores <= 40; ++cores) {
        for (int ranks = 1; ranks <= cores; ++ranks) {
            Cpus all;
            size_t least = 1000, most = 0;
            for (int r = 0; r < ranks; ++r) {
                const NodeCores node = node_of(plain_cores(cores), {}, range(0, cores));
                const Cpus mine = place(mpirun(r, ranks), node, true).cpus;
                all.insert(all.end(), mine.begin(), mine.end());
                least = std::min(least, mine.size());
                most = std::max(most, mine.size());
            }
            ASSERT_EQ(all, range(0, cores)) << ranks << " ranks";
            ASSERT_LE(most - least, 1u);
        }
    }
}

TEST(Placement, MoreRanksThanCoresShareThemAll) {
    const Placement p = place(mpirun(2, 3), node_of(plain_cores(2), {1}, {0, 1}), true);

    EXPECT_EQ(p.cpus, (Cpus{0, 1}));
    EXPECT_EQ(p.threads, 1);
}

TEST(Placement, LeavesABindingAloneWithBindNone) {
    const Placement p = place(mpirun(0, 2), node_of(plain_cores(16), {3}, range(0, 16)), false);

    EXPECT_TRUE(p.cpus.empty());
    EXPECT_EQ(p.threads, 1);
    EXPECT_EQ(p.line, "cpus 3 (--bind none: as the launcher bound them), 1 compute thread");
}

TEST(Placement, LeavesTheUsersOwnBindingAlone) {
    NodeCores node = node_of(plain_cores(16), range(4, 8), range(0, 16));
    node.policy = "numa";

    const Placement p = place(mpirun(0, 2), node, true);

    EXPECT_TRUE(p.cpus.empty());
    EXPECT_EQ(p.threads, 4);
}

TEST(Placement, LeavesSlurmsBindingAlone) {
    NodeCores node = node_of(plain_cores(16), range(4, 8), {});
    node.job_cpus = 16;

    const Placement p = place({"srun", 1, 4, 1, 4}, node, true);

    EXPECT_TRUE(p.cpus.empty());
    EXPECT_EQ(p.threads, 4);
}

TEST(Placement, RanksThatAreNotBoundDivideTheThreads) {
    EXPECT_EQ(place(mpirun(0, 4), node_of(plain_cores(16), range(0, 16), range(0, 16)), true).threads, 4);
    EXPECT_EQ(place(mpirun(0, 4), node_of(plain_cores(16), range(0, 16), range(0, 16)), false).threads, 4);
    EXPECT_EQ(place(mpirun(0, 4), node_of(plain_cores(2), range(0, 2), range(0, 2)), true).threads, 1);
    EXPECT_EQ(place({"srun", 0, 4, 0, 4}, node_of(plain_cores(16), range(0, 16), {}), true).threads, 4);
}

TEST(Placement, StaysWhereTheLauncherCannotBeSeen) {
    const Placement p = place(mpirun(0, 2), node_of(plain_cores(16), {0}, {}), true);

    EXPECT_TRUE(p.cpus.empty());
    EXPECT_EQ(p.threads, 1);
}

TEST(Placement, AlonePicksAThreadACore) {
    EXPECT_EQ(place({}, node_of(twin_cores(8), range(0, 16), {}), true).threads, 8);
    EXPECT_EQ(place({}, node_of(twin_cores(8), {1, 2, 9}, {}), true).threads, 2);
    EXPECT_TRUE(place({}, node_of(twin_cores(8), {1}, {}), true).cpus.empty());
}

TEST(Placement, TakesAndReportsTheRequestedThreads) {
    const Placement alone = place({}, node_of(plain_cores(2), {0, 1}, {}), true, /*threads=*/1);
    EXPECT_EQ(alone.threads, 1);
    EXPECT_EQ(alone.line, "cpus 0-1 (all there are), 1 compute thread (-t)");

    const Placement widened = place(mpirun(0, 2), node_of(plain_cores(16), {0}, range(0, 16)), true, /*threads=*/7);
    EXPECT_EQ(widened.cpus, range(0, 8));
    EXPECT_EQ(widened.threads, 7);
    EXPECT_EQ(widened.line,
              "mpirun bound this rank to cpus 0: now 0-7, 1 of 2 local ranks, 7 compute threads (-t) (--bind none "
              "keeps mpirun's)");
    EXPECT_EQ(widened.warning, "");
}

TEST(Placement, StartsNoMoreThreadsThanTheRankMayUseCpus) {
    const Placement alone = place({}, node_of(plain_cores(2), {0, 1}, {}), true, /*threads=*/999);
    EXPECT_EQ(alone.threads, 2);
    EXPECT_EQ(alone.line, "cpus 0-1 (all there are), 2 compute threads (-t)");
    EXPECT_THAT(alone.warning, testing::MatchesRegex("-t 999: .* 2 cpus, .* 2"));

    // Whether to use both threads of a core is the user's decision.
    EXPECT_EQ(place({}, node_of(twin_cores(4), range(0, 8), {}), true, 8).threads, 8);
    EXPECT_EQ(place({}, node_of(twin_cores(4), range(0, 8), {}), true, 8).warning, "");
    // The limit is the rank's share of the cores, a binding that is kept, or the container's quota.
    EXPECT_EQ(place(mpirun(0, 2), node_of(plain_cores(16), {0}, range(0, 16)), true, 12).threads, 8);
    EXPECT_EQ(place(mpirun(0, 2), node_of(plain_cores(16), {3}, range(0, 16)), false, 12).threads, 1);
    NodeCores node = node_of(plain_cores(64), range(0, 64), {});
    node.quota = 6;
    EXPECT_EQ(place({}, node, true, 64).threads, 6);
    EXPECT_EQ(place({"srun", 0, 2, 0, 2}, node, true, 64).threads, 3);
    EXPECT_EQ(place({}, node_of(plain_cores(2), {}, {}), true, 3).threads, 3);  // unknown binding: no limit
}

TEST(Placement, AContainersQuotaLimitsTheThreads) {
    NodeCores node = node_of(plain_cores(64), range(0, 64), {});
    node.quota = 6;

    EXPECT_EQ(place({}, node, true).threads, 6);
    node.quota = 0.5;
    EXPECT_EQ(place({}, node, true).threads, 1);
    node = node_of(plain_cores(64), {0}, range(0, 64));
    node.quota = 8;
    EXPECT_EQ(place(mpirun(0, 2), node, true).threads, 4);
}

TEST(CpuList, WritesRunsAsRanges) {
    EXPECT_EQ(cpu_list({}), "");
    EXPECT_EQ(cpu_list({5}), "5");
    EXPECT_EQ(cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(CpuMax, ReadsWhatTheKernelWrites) {
    EXPECT_EQ(parse_cpu_max("200000 100000"), 2.0);
    EXPECT_EQ(parse_cpu_max("50000 100000"), 0.5);
    for (const char* none : {"max 100000", "", "200000", " ", "-1 100000", "200000 0", "x y"}) {
        EXPECT_EQ(parse_cpu_max(none), 0.0) << none;
    }
}

TEST(Binding, ReadsThisMachine) {
    const NodeCores node = read_node({});

    ASSERT_FALSE(node.cores.empty());
    ASSERT_FALSE(node.bound.empty());
    EXPECT_TRUE(std::is_sorted(node.bound.begin(), node.bound.end()));
    EXPECT_GE(place({}, node, true).threads, 1);
}

TEST(Binding, BindsAndWidens) {
    const Cpus before = read_node({}).bound;

    ASSERT_TRUE(bind_to({before.front()}));
    EXPECT_EQ(read_node({}).bound, Cpus{before.front()});
    ASSERT_TRUE(bind_to(before));
    EXPECT_EQ(read_node({}).bound, before);
    EXPECT_TRUE(bind_to({}));
    EXPECT_EQ(read_node({}).bound, before);
}

}  // namespace
}  // namespace trireme::test
