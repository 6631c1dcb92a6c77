#include "dist/watchdog.h"

#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

using std::chrono::milliseconds;

/// Records what the watchdog reported.
struct Report {
    std::atomic<bool> fired{false};
    std::string call;
    uint64_t sequence = 0;
    double seconds = 0;

    Watchdog::Fire fire() {
        return [this](const char* c, uint64_t n, double s) {
            call = c;
            sequence = n;
            seconds = s;
            fired = true;
            fired.notify_all();
        };
    }
};

TEST(Watchdog, WhatHangsIsSaidOnStderrInOneLine) {
    testing::internal::CaptureStderr();
    say_that_it_hangs(3, "ncclCommInitRankConfig", 7, 20.2);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "trireme: error: rank 3: ncclCommInitRankConfig (number 7) has waited 20 s for its peers: one has died, "
              "hangs or is slow (TRIREME_TIMEOUT_S); the run ends\n");
}

TEST(Watchdog, FiresWhenACallLastsTooLong) {
    Report report;
    Watchdog dog(0.05, report.fire());
    { const Watchdog::Watch quick(dog, Watchdog::kControl, "barrier"); }

    const Watchdog::Watch slow(dog, Watchdog::kControl, "agree");
    report.fired.wait(false);

    EXPECT_EQ(report.call, "agree");
    EXPECT_EQ(report.sequence, 2u);
    EXPECT_GE(report.seconds, 0.05);
}

TEST(Watchdog, WatchesBothLanes) {
    Report report;
    Watchdog dog(0.05, report.fire());

    const Watchdog::Watch slow(dog, Watchdog::kDevice, "all_reduce");
    report.fired.wait(false);

    EXPECT_EQ(report.call, "all_reduce");
}

TEST(Watchdog, IsQuietWhileCallsFollowOneAnother) {
    Report report;
    {
        Watchdog dog(1.0, report.fire());  // each call is far shorter, but all together last longer
        for (int i = 0; i < 120; ++i) {
            const Watchdog::Watch watch(dog, Watchdog::kDevice, "all_reduce");
            std::this_thread::sleep_for(milliseconds(10));
        }
    }
    EXPECT_FALSE(report.fired);
}

TEST(Watchdog, IsQuietBetweenCalls) {
    Report report;
    {
        Watchdog dog(0.02, report.fire());
        { const Watchdog::Watch watch(dog, Watchdog::kDevice, "all_reduce"); }
        std::this_thread::sleep_for(milliseconds(100));
    }
    EXPECT_FALSE(report.fired);
}

TEST(Watchdog, RefusesTwoCallsInOneLane) {
    Report report;
    Watchdog dog(10, report.fire());
    const Watchdog::Watch one(dog, Watchdog::kDevice, "all_reduce");

    EXPECT_THROW(Watchdog::Watch(dog, Watchdog::kDevice, "all_gather"), Error);
}

}  // namespace
}  // namespace trireme::test
