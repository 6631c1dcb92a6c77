#include "dist/shared_memory.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "dist/peer_watch.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

constexpr size_t kEach = 8192;

std::vector<std::string> names(int ranks) {
    return std::vector<std::string>(static_cast<size_t>(ranks), process_name());
}

SharedMemory share(Comm& comm, const std::vector<std::string>& names, const std::function<void()>& wanted) {
    return SharedMemory(
        comm.rank(), names, kEach, [&](const std::string& mine) { return comm.gather_bytes(mine); }, wanted);
}

/// Returns the message of the refusal, or "" if the ranks share memory.
std::string refusal(
    Comm& comm, const std::vector<std::string>& names, const std::function<void()>& wanted = [] {}) {
    try {
        share(comm, names, wanted);
        return "";
    } catch (const AgreedError& e) {
        return e.what();
    }
}

std::ptrdiff_t descriptors() {
    return std::ranges::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                 std::filesystem::directory_iterator());
}

TEST(SharedMemory, IsZeroAndWhatOneWritesAllRead) {
    const auto before = descriptors();

    run_ranks(3, [](Comm& comm) {
        const SharedMemory memory = share(comm, names(3), [] {});
        EXPECT_TRUE(
            std::all_of(memory.data(), memory.data() + 3 * kEach, [](std::byte b) { return b == std::byte{0}; }));
        comm.barrier();
        std::byte* own = memory.data() + static_cast<size_t>(comm.rank()) * kEach;
        own[0] = own[kEach - 1] = static_cast<std::byte>(comm.rank() + 1);
        comm.barrier();
        for (size_t r = 0; r < 3; ++r) {
            EXPECT_EQ(static_cast<size_t>(memory.data()[r * kEach]), r + 1);
            EXPECT_EQ(static_cast<size_t>(memory.data()[(r + 1) * kEach - 1]), r + 1);
        }
    });

    EXPECT_EQ(descriptors(), before);
}

TEST(SharedMemory, WhatOneRankHasAgainstItAllSay) {
    run_ranks(3, [](Comm& comm) {
        const std::string why = refusal(comm, names(3), [&] {
            if (comm.rank() == 2) fail(Exit::kConfig, "rank 2 would rather not");
        });
        EXPECT_EQ(why, "rank 2 would rather not");
    });
}

TEST(SharedMemory, IsOfOneMachine) {
    run_ranks(2, [](Comm& comm) {
        EXPECT_EQ(refusal(comm, {process_name(), "another 7"}), "not all ranks are on one machine");
        EXPECT_EQ(refusal(comm, {" 6", " 7"}), "not all ranks are on one machine") << "it is not known";
    });
}

TEST(SharedMemory, WhereTheSystemGivesNoneAllSayWhy) {
    struct rlimit before {};
    getrlimit(RLIMIT_FSIZE, &before);
    const struct rlimit little = {4096, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    const auto descriptors_before = descriptors();

    run_ranks(2, [](Comm& comm) { EXPECT_EQ(refusal(comm, names(2)), "ftruncate: File too large"); });

    EXPECT_EQ(descriptors(), descriptors_before);
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
}

}  // namespace
}  // namespace trireme::test
