#include "tests/support/thread_comm.h"

#include <atomic>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/cpu/stream.h"
#include "runtime/trace.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

/// The code and text of the Error that f throws.
template <class F>
std::pair<Exit, std::string> error_of(const F& f) {
    try {
        f();
    } catch (const Error& e) {
        return {e.code(), e.what()};
    }
    return {Exit::kOk, "nothing was thrown"};
}

TEST(ThreadComm, AbortReleasesRanksThatWaitInControlCalls) {
    std::atomic<int> released{0};

    const auto [code, text] = error_of([&] {
        run_ranks(4, [&](Comm& comm) {
            if (comm.rank() == 2) comm.abort(Exit::kNoInput);
            EXPECT_EQ(error_of([&] { comm.barrier(); }),
                      std::pair(Exit::kNoInput, std::string("rank 2 ended the run with 66")));
            ++released;
        });
    });

    EXPECT_EQ(code, Exit::kNoInput);
    EXPECT_EQ(released, 3);
}

TEST(ThreadComm, AbortReleasesStreamsThatWaitInCollectives) {
    std::atomic<int> released{0};

    const auto [code, text] = error_of([&] {
        run_ranks(3, [&](Comm& comm) {
            std::vector<float> x(1000, 1.0f);
            CpuStream stream("collectives", 1);
            if (comm.rank() == 0) fail(Exit::kData, "this rank's file is broken");
            comm.all_reduce(stream, Tensor(x.data(), DType::kF32, Shape{1000}));
            EXPECT_EQ(error_of([&] { stream.synchronize(); }).first, Exit::kData);
            ++released;
        });
    });

    EXPECT_EQ(code, Exit::kData);
    EXPECT_EQ(text, "this rank's file is broken");
    EXPECT_EQ(released, 2);
}

TEST(ThreadComm, EveryLaterCallOfAnAbortedRunFails) {
    run_ranks(2, [](Comm& comm) {
        EXPECT_THROW(comm.rank() == 0 ? comm.abort(Exit::kIo) : comm.barrier(), Error);
        EXPECT_EQ(error_of([&] { comm.agree(Exit::kOk); }).first, Exit::kIo);
    });
}

TEST(ThreadComm, ARankThatHasLeftFailsWhoWaitsForIt) {
    const auto [code, text] = error_of([] {
        run_ranks(3, [](Comm& comm) {
            comm.barrier();
            if (comm.rank() != 1) comm.barrier();
        });
    });

    EXPECT_EQ(code, Exit::kUnavailable);
    EXPECT_NE(text.find("waits in a control call (call 1), but rank 1 has left"), std::string::npos) << text;
}

TEST(ThreadComm, ARankThatDoesNotComeIsGivenUp) {
    const auto comms = make_thread_comms(2, 0.05);

    const auto [code, text] = error_of([&] { comms[0]->barrier(); });

    EXPECT_EQ(code, Exit::kUnavailable);
    EXPECT_EQ(text, "rank 0: a control call (call 0) has waited 0.05 s for rank 1");
    EXPECT_EQ(error_of([&] { comms[1]->barrier(); }), std::pair(code, text)) << "the run has also ended for it";
}

TEST(ThreadComm, LengthsThatDifferAreABug) {
    run_ranks(2, [](Comm& comm) {
        std::vector<float> x(8);
        CpuStream stream("collectives", 1);
        comm.all_reduce(stream, Tensor(x.data(), DType::kF32, Shape{7 + comm.rank()}));
        EXPECT_EQ(error_of([&] { stream.synchronize(); }).first, Exit::kInternal);
    });
}

TEST(ThreadComm, TracesBytes) {
    const auto before_reduce = trace::total("all_reduce"), before_gather = trace::total("all_gather");

    run_ranks(2, [](Comm& comm) {
        std::vector<float> x(100), out(200);
        CpuStream stream("collectives", 1);
        comm.all_reduce(stream, Tensor(x.data(), DType::kF32, Shape{100}));
        comm.all_gather(stream, Tensor(out.data(), DType::kF32, Shape{2, 100}),
                        Tensor(x.data(), DType::kF32, Shape{100}));
        stream.synchronize();
    });

    EXPECT_EQ(trace::total("all_reduce").bytes - before_reduce.bytes, 2 * 400u);
    EXPECT_EQ(trace::total("all_gather").bytes - before_gather.bytes, 2 * 800u);
}

TEST(RunRanks, ThrowsWhatTheFirstRankThrew) {
    EXPECT_EQ(error_of([] {
                  run_ranks(4, [](Comm& comm) {
                      if (comm.rank() == 3) fail(Exit::kOs, "no memory on this rank");
                      comm.barrier();
                  });
              }),
              std::pair(Exit::kOs, std::string("no memory on this rank")));
}

}  // namespace
}  // namespace trireme::test
