#include "dist/peer_watch.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using namespace std::chrono_literals;

/// A process that lives until it is ended.
class Child {
  public:
    Child() : pid_(fork()) {
        if (pid_ != 0) return;
        for (;;) pause();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() { end(); }

    /// The process remains a zombie until reap(), as a rank does until its launcher waits for it.
    void kill() const { ::kill(pid_, SIGKILL); }
    void reap() { ::waitpid(std::exchange(pid_, 0), nullptr, 0); }
    void end() {
        if (pid_ <= 0) return;
        kill();
        reap();
    }
    std::string name() const {
        const std::string mine = process_name();
        return mine.substr(0, mine.find(' ') + 1) + std::to_string(pid_);
    }

  private:
    pid_t pid_;
};

TEST(PeerWatch, SaysWhichRankHasEnded) {
    const Child one;
    Child other;
    std::promise<int> gone;
    const PeerWatch watch({process_name(), one.name(), other.name()}, [&](int rank) { gone.set_value(rank); });

    other.kill();

    std::future<int> rank = gone.get_future();
    ASSERT_EQ(rank.wait_for(30s), std::future_status::ready);
    EXPECT_EQ(rank.get(), 2);
}

TEST(PeerWatch, ARankThatHasEndedBeforeIsNoticed) {
    Child early;
    const std::string name = early.name();
    early.end();
    std::promise<int> gone;
    const PeerWatch watch({process_name(), name}, [&](int rank) { gone.set_value(rank); });

    std::future<int> rank = gone.get_future();
    ASSERT_EQ(rank.wait_for(30s), std::future_status::ready);
    EXPECT_EQ(rank.get(), 1);
}

TEST(PeerWatch, RanksMayEndAfterIt) {
    const Child peer;
    std::atomic<bool> called = false;
    {
        const PeerWatch watch({peer.name(), process_name()}, [&](int) { called = true; });
    }

    peer.kill();

    EXPECT_FALSE(called);
}

TEST(PeerWatch, TheFirstRankOfOneMachineIsKnown) {
    const std::string mine = process_name();
    EXPECT_EQ(first_of_one_machine({mine, mine + "1"}), ::getpid());
    EXPECT_EQ(first_of_one_machine({mine, "another-machine 1"}), 0);
    EXPECT_EQ(first_of_one_machine({" 1", " 2"}), 0) << "neither knows its machine";
}

// On this machine their process ids belong to other processes, or to none.
TEST(PeerWatch, RanksOfOtherMachinesAreNotWatched) {
    Child early;
    const std::string number = early.name().substr(early.name().find(' '));
    early.end();
    std::promise<int> gone;
    const PeerWatch watch({process_name(), "another-machine" + number, number, "", "nonsense"},
                          [&](int rank) { gone.set_value(rank); });

    EXPECT_EQ(gone.get_future().wait_for(200ms), std::future_status::timeout);
}

}  // namespace
}  // namespace trireme::test
