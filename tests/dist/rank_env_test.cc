#include "dist/rank_env.h"

#include <map>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

using Table = std::map<std::string, std::string>;

RankEnv read(const Table& table) {
    return rank_env([&](const char* name) {
        const auto it = table.find(name);
        return it == table.end() ? nullptr : it->second.c_str();
    });
}

std::string line(const RankEnv& e) {
    return fmt::format("{} {}/{} {}/{}", e.launcher, e.rank, e.size, e.local_rank, e.local_size);
}

std::string refusal(const Table& table) {
    try {
        return "accepted as " + line(read(table));
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kConfig);
        return e.what();
    }
}

TEST(RankEnv, IsOneRankWithoutALauncher) {
    EXPECT_EQ(line(read({})), "none 0/1 0/1");
    EXPECT_EQ(line(read({{"HOME", "/root"}, {"SLURM_JOB_ID", "7"}})), "none 0/1 0/1");
}

TEST(RankEnv, ReadsOpenMpi) {
    EXPECT_EQ(line(read({{"OMPI_COMM_WORLD_SIZE", "8"},
                         {"OMPI_COMM_WORLD_RANK", "5"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"PMIX_RANK", "5"}})),
              "mpirun 5/8 1/4");
}

TEST(RankEnv, ReadsSrun) {
    const Table step = {
        {"SLURM_STEP_NUM_TASKS", "11"}, {"SLURM_PROCID", "9"}, {"SLURM_LOCALID", "1"},
        {"SLURM_NODEID", "2"},          {"PMIX_RANK", "9"},    {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};
    EXPECT_EQ(line(read(step)), "srun 9/11 1/3");
    Table other = step;
    other["SLURM_NODEID"] = "1";
    EXPECT_EQ(line(read(other)), "srun 9/11 1/4");
}

TEST(RankEnv, ABatchScriptIsNotAStep) {
    EXPECT_EQ(line(read({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}, {"SLURM_LOCALID", "0"}})),
              "none 0/1 0/1");
}

TEST(RankEnv, MpirunWithinAStepCounts) {
    EXPECT_EQ(line(read({{"SLURM_STEP_NUM_TASKS", "1"},
                         {"SLURM_PROCID", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_RANK", "1"}})),
              "mpirun 1/2 1/2");
}

TEST(RankEnv, ReadsPmi) {
    EXPECT_EQ(line(read({{"PMI_SIZE", "6"}, {"PMI_RANK", "4"}, {"MPI_LOCALNRANKS", "3"}, {"MPI_LOCALRANKID", "1"}})),
              "mpiexec 4/6 1/3");
}

TEST(RankEnv, LeavesTheCountToMpiWherePmixDoesNotSay) {
    const RankEnv e = read({{"PMIX_RANK", "3"}});
    EXPECT_EQ(e.launcher, "prun");
    EXPECT_EQ(e.size, 0);
    EXPECT_EQ(e.rank, 3);
}

TEST(RankEnv, RefusesWhatIsNoNumber) {
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "two"}}), "OMPI_COMM_WORLD_SIZE='two': want a whole number from 1 up");
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "0"}}), "OMPI_COMM_WORLD_SIZE='0': want a whole number from 1 up");
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "-1"}}),
              "OMPI_COMM_WORLD_RANK='-1': want a whole number from 0 up");
    EXPECT_EQ(refusal({{"PMI_SIZE", "99999999999"}}), "PMI_SIZE='99999999999': want a whole number from 1 up");
    for (const char* list : {"", "x", "4(x", "0", "4,", "4(y2)"}) {
        EXPECT_NE(refusal({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NODEID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", list}})
                      .find("SLURM_STEP_TASKS_PER_NODE="),
                  std::string::npos)
            << list;
    }
}

TEST(RankEnv, RefusesContradictions) {
    EXPECT_EQ(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}}),
              "mpirun: rank 2 of 2, 2 of 2 on this node: the launcher's environment contradicts itself");
}

}  // namespace
}  // namespace trireme::test
