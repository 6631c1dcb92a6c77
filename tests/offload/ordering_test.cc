#include "offload/stream/ordering.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace trireme::test {
namespace {

struct Lanes {
    std::unique_ptr<Device> device = open_device("cpu");
    std::unique_ptr<Stream> compute = device->make_stream("compute"), h2d = device->make_stream("h2d"),
                            d2h = device->make_stream("d2h");
    Ordering order{*compute, *h2d, *d2h};

    void synchronize() {
        for (Stream* s : {compute.get(), h2d.get(), d2h.get()}) s->synchronize();
    }
};

TEST(Ordering, WorkAfterAWaitSeesWorkBeforeTheMark) {
    Lanes l;
    std::atomic<int> value{0};
    int seen = -1;
    const auto write = [&value] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        value = 7;
    };
    l.h2d->call_host("write", 0, write);
    l.order.wait(Lane::kCompute, l.order.record(Lane::kH2d));
    l.compute->call_host("read", 0, [&value, &seen] { seen = value; });
    l.synchronize();

    EXPECT_EQ(seen, 7);
}

TEST(Ordering, AWaitThatSaysNothingNewIsNotMade) {
    Lanes l;
    const auto mark = [&l](Lane lane) {  // after some work
        l.order.stream(lane).call_host("work", 0, [] {});
        return l.order.record(lane);
    };
    const Ordering::Mark a = mark(Lane::kCompute), b = mark(Lane::kCompute);
    l.order.wait(Lane::kH2d, b);
    EXPECT_EQ(l.order.waits(), 1);
    l.order.wait(Lane::kH2d, a);  // before b
    EXPECT_EQ(l.order.waits(), 1);

    const Ordering::Mark c = mark(Lane::kH2d);
    l.order.wait(Lane::kD2h, c);
    EXPECT_EQ(l.order.waits(), 2);
    l.order.wait(Lane::kD2h, b);  // implied by c
    EXPECT_EQ(l.order.waits(), 2);
    l.order.wait(Lane::kD2h, mark(Lane::kCompute));
    EXPECT_EQ(l.order.waits(), 3);
    l.order.wait(Lane::kCompute, {});
    l.order.wait(Lane::kH2d, c);  // a mark of the lane itself
    EXPECT_EQ(l.order.waits(), 3);
    l.synchronize();
}

TEST(Ordering, AMarkIsTheSameWhereNothingWasEnqueuedSince) {
    Lanes l;
    l.h2d->call_host("work", 0, [] {});
    l.order.wait(Lane::kCompute, l.order.record(Lane::kH2d));
    l.order.wait(Lane::kCompute, l.order.record(Lane::kH2d));
    EXPECT_EQ(l.order.waits(), 1);
    l.h2d->call_host("work", 0, [] {});
    l.order.wait(Lane::kCompute, l.order.record(Lane::kH2d));
    EXPECT_EQ(l.order.waits(), 2);
    l.synchronize();
}

TEST(Ordering, OfSeveralMarksThoseAreWaitedForThatKnowMost) {
    Lanes l;
    l.h2d->call_host("work", 0, [] {});
    const Ordering::Mark filled = l.order.record(Lane::kH2d);
    l.order.wait(Lane::kCompute, filled);
    l.compute->call_host("work", 0, [] {});
    const Ordering::Mark read = l.order.record(Lane::kCompute);  // implies filled
    l.h2d->call_host("work", 0, [] {});
    const Ordering::Mark later = l.order.record(Lane::kH2d);

    l.order.wait_all(Lane::kD2h, std::array{filled, read, Ordering::Mark{}});
    EXPECT_EQ(l.order.waits(), 2);
    l.order.wait_all(Lane::kD2h, std::array{filled, read, later});
    EXPECT_EQ(l.order.waits(), 3);
    l.synchronize();
}

TEST(Ordering, SlipsWhereItIsSet) {
    for (const auto slip : {Ordering::Slip::kNoWait, Ordering::Slip::kNoRecord}) {
        Lanes l;
        std::atomic<bool> done{false};
        bool seen = true;
        l.order.slip(0, slip);
        l.order.record(Lane::kH2d);
        l.h2d->call_host("write", 0, [&done] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            done = true;
        });
        l.order.wait(Lane::kCompute, l.order.record(Lane::kH2d));
        l.compute->call_host("read", 0, [&done, &seen] { seen = done; });
        l.synchronize();

        EXPECT_FALSE(seen);
    }
}

}  // namespace
}  // namespace trireme::test
