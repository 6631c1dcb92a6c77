/// The program that mpi_failure_test starts: one of three ranks fails. argv[1] selects the failure.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "dist/agreement.h"
#include "dist/mpi_comm.h"
#include "dist/rank_env.h"
#include "runtime/cpu/stream.h"
#include "runtime/log.h"

namespace trireme::test {
namespace {

/// The failure of rank 1.
void go_wrong(const std::string& how) {
    if (how == "throw") fail(Exit::kData, "this rank's file is broken");
    if (how == "unwind") fail(Exit::kData, "thrown past the Comm");
    if (how == "kill") std::raise(SIGKILL);
    if (how.starts_with("stop")) std::raise(SIGSTOP);
    if (how == "leave") _exit(0);
    if (how == "slow") std::this_thread::sleep_for(std::chrono::seconds(60));
}

/// Handles errors as the program's main() does: the rank that catches one aborts all ranks.
int run(const std::string& how) {
    if (how == "late" && rank_env(std::getenv).rank == 1) std::this_thread::sleep_for(std::chrono::seconds(8));
    MpiComm comm(how == "miscounted" ? 5 : 3);
    log::configure(comm.rank(), comm.size(), log::Level::kOff);  // the reason why a run ends is printed even so
    const auto phase = [&] {
        std::fprintf(stderr, "pid %d\n", static_cast<int>(getpid()));
        comm.barrier();
        if (how == "settings") require_agreement(comm, {{"context", comm.rank() == 1 ? "8192" : "32768"}});
        std::vector<float> x(100000, 1.0f);
        CpuStream stream("collectives", 1);  // declared after x: a collective that was given up may still complete
        comm.all_reduce(stream, Tensor(x.data(), DType::kF32, Shape{std::ssize(x)}));
        stream.synchronize();
        if (comm.rank() == 1) go_wrong(how);
        if (how.ends_with("control")) comm.barrier();
        comm.all_reduce(stream, Tensor(x.data(), DType::kF32, Shape{how == "lengths" && comm.rank() == 1 ? 7 : 8}));
        stream.synchronize();
    };
    if (how == "unwind") phase();
    try {
        phase();
    } catch (const AgreedError& e) {
        if (comm.rank() == 0) std::fprintf(stderr, "%s\n", e.what());
        return static_cast<int>(e.code());
    } catch (const Error& e) {
        std::fprintf(stderr, "rank %d: %s\n", comm.rank(), e.what());
        comm.abort(e.code());
    }
    return 0;
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
    try {
        return trireme::test::run(argc > 1 ? argv[1] : "");
    } catch (const trireme::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return static_cast<int>(e.code());
    }
}
