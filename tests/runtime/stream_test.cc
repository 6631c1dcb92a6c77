#include "runtime/stream.h"

#include <chrono>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/buffer.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/parallel.h"
#include "runtime/cpu/stream.h"

namespace trireme::test {
namespace {

void nap() {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

TEST(CpuStream, RunsInOrderAndAsynchronously) {
    CpuStream s("s", 1);
    std::vector<int> seen;
    auto* out = &seen;

    for (int i = 0; i < 5000; ++i) s.enqueue("push", 0, [out, i] { out->push_back(i); });  // more than the ring holds
    s.synchronize();

    ASSERT_EQ(seen.size(), 5000u);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST(CpuStream, ItsWorkerLeadsItsTeam) {
    CpuStream s("s", 3);
    std::vector<std::thread::id> ids(3);
    auto* out = &ids;

    s.enqueue("region", 0, [out] {
        parallel([&](int thread, int) { (*out)[static_cast<size_t>(thread)] = std::this_thread::get_id(); });
    });
    s.synchronize();

    EXPECT_EQ(s.threads(), 3);
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), 3u);
    EXPECT_FALSE(std::set(ids.begin(), ids.end()).contains(std::thread::id()));
    EXPECT_EQ(parallel_width(), 1) << "here, outside of the stream";
}

TEST(CpuStream, EnqueueReturnsBeforeTheWorkIsDone) {
    CpuStream s("s", 1);
    std::atomic<bool> go{false};
    auto* flag = &go;

    s.enqueue("block", 0, [flag] { flag->wait(false); });
    const Event done = s.record();

    EXPECT_FALSE(s.reached(done));
    go = true;
    go.notify_all();
    s.synchronize(done);
    EXPECT_TRUE(s.reached(done));
}

// Offloading depends on this order: without the wait, compute reads memory that the copy has not written yet.
int value_read(bool with_wait) {
    CpuStream copy("copy", 1), compute("compute", 1);
    int cell = 0, read = -1;
    std::atomic<bool> started{false};
    auto *c = &cell, *r = &read;
    auto* s = &started;

    copy.enqueue("write", 0, [c, s, with_wait] {
        if (!with_wait) s->wait(false);  // simulates a slow link, without a race of its own
        *c = 42;
    });
    const Event written = copy.record();
    if (with_wait) compute.wait(written);
    compute.enqueue("read", 0, [c, r, s] {
        *r = *c;
        s->store(true);
        s->notify_all();
    });
    compute.synchronize();
    copy.synchronize();
    return read;
}

TEST(CpuStream, AWaitOrdersTwoStreams) {
    for (int i = 0; i < 100; ++i) ASSERT_EQ(value_read(/*with_wait=*/true), 42);
}

TEST(CpuStream, ADeletedWaitIsSeen) {
    EXPECT_EQ(value_read(/*with_wait=*/false), 0);
}

TEST(CpuStream, AnErrorSurfacesAtSynchronizeAndSkipsLaterWork) {
    CpuStream s("s", 1);
    int later = 0;
    auto* l = &later;

    s.enqueue("bad", 0, [] { fail(Exit::kData, "planted"); });
    s.enqueue("later", 0, [l] { *l = 1; });

    EXPECT_THROW(s.synchronize(), Error);
    EXPECT_EQ(later, 0);
}

TEST(CpuStream, AnErrorReachesTheStreamThatWaitsForIt) {
    CpuStream a("a", 1), b("b", 1);

    a.enqueue("bad", 0, [] {
        nap();
        fail(Exit::kData, "planted");
    });
    b.wait(a.record());

    try {
        b.synchronize();
        FAIL() << "no error";
    } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "planted");
        EXPECT_EQ(e.code(), Exit::kData);
    }
}

TEST(CpuStream, CopiesBetweenSpaces) {
    CpuDevice device(1);
    const auto stream = device.make_stream("s");
    Buffer<Space::kHost> from(device, 4096), to(device, 4096);
    Buffer<Space::kDevice> there(device, 4096);
    for (int i = 0; i < 1024; ++i) static_cast<int32_t*>(from.data())[i] = i * i;
    const Shape shape{1024};

    stream->copy(there.tensor(DType::kI32, shape), from.tensor(DType::kI32, shape));
    stream->copy(to.tensor(DType::kI32, shape), there.tensor(DType::kI32, shape));
    stream->synchronize();

    EXPECT_EQ(std::memcmp(from.data(), to.data(), 4096), 0);
}

TEST(CpuStream, AGraphRunsWhatWasRecordedAndReadsWhatLiesThereThen) {
    CpuStream s("s", 1);
    int x = 1, sum = 0;
    auto *in = &x, *out = &sum;

    const auto graph = s.capture([&] {
        s.enqueue("add", 0, [in, out] { *out += *in; });
        s.call_host("double", 0, [out] { *out *= 2; });
    });
    s.synchronize();
    EXPECT_EQ(sum, 0) << "recording runs nothing";

    for (const int next : {1, 10}) {
        s.synchronize();
        x = next;
        graph->launch();
    }
    s.enqueue("later", 0, [out] { *out += 1000; });
    s.synchronize();
    EXPECT_EQ(sum, ((0 + 1) * 2 + 10) * 2 + 1000);
}

TEST(CpuStream, AGraphOfMoreThanTheRingHolds) {
    CpuStream s("s", 1);
    std::vector<int> seen;
    auto* out = &seen;
    const auto graph = s.capture([&] {
        for (int i = 0; i < 1500; ++i) s.enqueue("push", 0, [out, i] { out->push_back(i); });
    });
    graph->launch();
    graph->launch();
    s.synchronize();
    ASSERT_EQ(seen.size(), 3000u);
    for (int i = 0; i < 3000; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], i % 1500);
}

TEST(CpuStream, EventsAndGraphsWithinAGraphAreBugs) {
    CpuStream s("s", 1), other("other", 1);
    const Event elsewhere = other.record();
    EXPECT_THROW(s.capture([&] { s.record(); }), Error);
    EXPECT_THROW(s.capture([&] { s.wait(elsewhere); }), Error);
    EXPECT_THROW(s.capture([&] { s.capture([] {}); }), Error);
    int ran = 0;  // the stream still works
    s.enqueue("work", 0, [r = &ran] { *r = 1; });
    s.synchronize();
    EXPECT_EQ(ran, 1);
}

TEST(CpuStream, AHostCallThatFailsFailsTheStream) {
    CpuStream s("s", 1);
    s.call_host("bad", 0, [] { fail(Exit::kData, "planted"); });
    EXPECT_THROW(s.synchronize(), Error);
}

TEST(CpuStream, RefusesACopyBetweenDifferentShapes) {
    CpuDevice device(1);
    const auto stream = device.make_stream("s");
    Buffer<Space::kHost> host(device, 4096);
    Buffer<Space::kDevice> dev(device, 4096);

    EXPECT_THROW(stream->copy(dev.tensor(DType::kF32, {8}), host.tensor(DType::kF32, {9})), Error);
    EXPECT_THROW(stream->copy(dev.tensor(DType::kF32, {8}), host.tensor(DType::kI32, {8})), Error);
}

}  // namespace
}  // namespace trireme::test
