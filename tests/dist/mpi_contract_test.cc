/// The contract on MPI ranks: every rank runs every case, and all exit with the worst status. Started by mpirun; with
/// TRIREME_SHM_SUMS=0 device calls go through messages.
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

#include "dist/mpi_comm.h"
#include "runtime/env.h"
#include "tests/dist/contract.h"

namespace trireme::test {
namespace {

class MpiContract : public testing::Test {
  public:
    MpiContract(Comm& comm, ContractCase c) : comm_(comm), case_(c) {}
    void TestBody() override { case_.run(comm_); }

  private:
    Comm& comm_;
    ContractCase case_;
};

void goes_the_way_that_was_asked_for(Comm& comm) {
    EXPECT_STREQ(comm.name(), env().shm_sums.value_or(true) ? "shared memory" : "mpi (TRIREME_SHM_SUMS=0)");
}

/// Prints the failures of ranks other than 0.
class Failures : public testing::EmptyTestEventListener {
  public:
    explicit Failures(int rank) : rank_(rank) {}
    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (result.failed()) {
            std::fprintf(stderr, "rank %d: %s:%d: %s\n", rank_, result.file_name() ? result.file_name() : "",
                         result.line_number(), result.message());
        }
    }

  private:
    int rank_;
};

int run(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    MpiComm comm(/*ranks=*/0);
    std::vector<ContractCase> cases(contract().begin(), contract().end());
    cases.push_back({"GoesTheWayThatWasAskedFor", goes_the_way_that_was_asked_for});
    for (const ContractCase& c : cases) {
        testing::RegisterTest("MpiContract", c.name, nullptr, nullptr, __FILE__, __LINE__,
                              [&comm, c]() -> MpiContract* { return new MpiContract(comm, c); });
    }
    if (comm.rank() != 0) {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        listeners.Append(new Failures(comm.rank()));
    }
    const Exit status = RUN_ALL_TESTS() == 0 ? Exit::kOk : Exit::kInternal;
    return static_cast<int>(comm.agree(status));
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
    return trireme::test::run(argc, argv);
}
