#include "dist/self_comm.h"

#include <gtest/gtest.h>
#include <mpi.h>

#include "dist/make_comm.h"

namespace trireme::test {
namespace {

TEST(MakeComm, OneRankStartsNoMpi) {
    const auto comm = make_comm();

    int started = 1;
    MPI_Initialized(&started);
    EXPECT_EQ(started, 0);
    EXPECT_STREQ(comm->name(), "self");
    EXPECT_EQ(comm->size(), 1);
}

TEST(SelfCommDeathTest, AbortLeavesWithTheCode) {
    SelfComm comm;
    EXPECT_EXIT(comm.abort(Exit::kNoInput), testing::ExitedWithCode(66), "");
}

}  // namespace
}  // namespace trireme::test
