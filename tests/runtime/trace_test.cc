#include "runtime/trace.h"

#include <string>

#include <gtest/gtest.h>

#include "runtime/cpu/stream.h"

namespace trireme::test {
namespace {

TEST(Trace, AddsUpBytesAndCountsOverThreads) {
    trace::reset_totals();
    CpuStream a("a", 1), b("b", 1);

    for (int i = 0; i < 3; ++i) a.enqueue("trace_test_op", 100, [] {});
    b.enqueue("trace_test_op", 11, [] {});
    a.synchronize();
    b.synchronize();

    EXPECT_EQ(trace::total("trace_test_op").count, 4u);
    EXPECT_EQ(trace::total("trace_test_op").bytes, 311u);
    EXPECT_EQ(trace::total("no such name").count, 0u);
}

TEST(Trace, MayBeReadWhileAStreamAdds) {
    const auto before = trace::total("busy_op").count;
    CpuStream s("busy", 1);
    uint64_t seen = 0;
    for (int i = 0; i < 500; ++i) {
        s.enqueue("busy_op", 1, [] {});
        const uint64_t now = trace::total("busy_op").count - before;
        ASSERT_GE(now, seen);
        seen = now;
    }
    s.synchronize();
    EXPECT_EQ(trace::total("busy_op").count - before, 500u);
}

TEST(Trace, TakesTheTimeOfWhatIsCountedAlready) {
    trace::reset_totals();
    trace::start(16);
    trace::Lane& card = trace::make_lane("gpu");

    trace::count(trace::name_lane("host"), {"copied later", 1, 0, 64});
    EXPECT_EQ(trace::total("copied later").bytes, 64u);

    trace::add_time(card, "copied later", 1000, 1500, 64);
    const trace::Total total = trace::total("copied later");
    EXPECT_EQ(total.count, 1u);
    EXPECT_EQ(total.bytes, 64u);
    EXPECT_EQ(total.ns, 500u);
    EXPECT_NE(trace::json(0).find(R"("name":"copied later")"), std::string::npos);
}

TEST(Trace, WritesSpansAsChromeEvents) {
    trace::start(16);
    CpuStream s("lane_of_s", 1);

    s.enqueue("spanned", 7, [] {});
    s.synchronize();

    const std::string json = trace::json(3);
    EXPECT_NE(json.find(R"("name":"rank 3")"), std::string::npos);
    EXPECT_NE(json.find(R"("name":"lane_of_s")"), std::string::npos);
    EXPECT_NE(json.find(R"("name":"spanned")"), std::string::npos);
    EXPECT_NE(json.find(R"("bytes":7)"), std::string::npos);
}

/// The spans of one lane: other tests recorded spans in other lanes.
std::vector<trace::Span> spans_of(std::string_view lane, uint64_t begin_ns) {
    std::vector<trace::Span> all = trace::spans(begin_ns);
    std::erase_if(all, [&](const trace::Span& s) { return lane != s.lane; });
    return all;
}

TEST(Trace, GivesTheSpansSinceATimeAndForgetsThem) {
    trace::start(4);
    CpuStream s("lane_of_spans", 1);
    s.enqueue("before", 1, [] {});
    s.synchronize();
    const uint64_t begin = trace::now();
    s.enqueue("first", 2, [] {});
    s.enqueue("second", 3, [] {});
    s.synchronize();

    const std::vector<trace::Span> kept = spans_of("lane_of_spans", begin);
    ASSERT_EQ(kept.size(), 2u);
    EXPECT_STREQ(kept[0].name, "first");
    EXPECT_EQ(kept[1].bytes, 3u);
    EXPECT_LE(kept[0].end, kept[1].begin);
    EXPECT_EQ(spans_of("lane_of_spans", 0).size(), 3u);

    const size_t dropped = trace::dropped();
    for (int i = 0; i < 5; ++i) s.enqueue("more", 1, [] {});
    s.synchronize();
    EXPECT_EQ(spans_of("lane_of_spans", 0).size(), 4u);
    EXPECT_EQ(trace::dropped(), dropped + 4);

    trace::stop();
    EXPECT_FALSE(trace::recording());
    s.enqueue("unseen", 1, [] {});
    s.synchronize();
    EXPECT_TRUE(trace::spans(0).empty());
    EXPECT_EQ(trace::dropped(), 0u);
}

TEST(Trace, GivesSpansWhileAStreamAdds) {
    trace::start(1000);
    CpuStream s("lane_at_work", 1);
    size_t seen = 0;
    for (int i = 0; i < 200; ++i) {
        s.enqueue("added", 1, [] {});
        const size_t now = spans_of("lane_at_work", 0).size();
        EXPECT_GE(now, seen);
        seen = now;
    }
    s.synchronize();
    EXPECT_EQ(spans_of("lane_at_work", 0).size(), 200u);
    trace::stop();
}

}  // namespace
}  // namespace trireme::test
