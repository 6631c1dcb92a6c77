#include "launch/run/progress.h"

#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

struct Recorder {
    double now = 100;
    std::vector<std::string> drawn, lines;

    ProgressSink sink(bool enabled, bool terminal) {
        return {.enabled = enabled,
                .terminal = terminal,
                .width = 60,
                .draw = [this](std::string_view s) { drawn.emplace_back(s); },
                .line = [this](std::string_view s) { lines.emplace_back(s); },
                .seconds = [this] { return now; }};
    }
};

TEST(ProgressBar, ShowsShareAndAmount) {
    EXPECT_EQ(progress_bar("load", "bytes", 104'857'600, 209'715'200, 60),
              "load  [#############..............]  50 %  104.9 of 209.7 MB");
    EXPECT_THAT(progress_bar("prefill", "tokens", 0, 4096, 60), HasSubstr("..]   0 %  0 of 4096 tokens"));
    EXPECT_THAT(progress_bar("prefill", "tokens", 4096, 4096, 60), HasSubstr("##] 100 %  4096 of 4096 tokens"));
}

TEST(ProgressBar, ShowsRateAndTimeLeft) {
    EXPECT_THAT(progress_bar("none, run 2 of 5", "tokens", 64, 256, 100, 50),
                HasSubstr(" 25 %  64 of 256 tokens, 1.3 tok/s, 2 min 30 s left"));
    EXPECT_THAT(progress_bar("load", "bytes", 100'000'000, 200'000'000, 100, 2), HasSubstr("50.0 MB/s, 2 s left"));
    EXPECT_THAT(progress_bar("score", "pairs", 0, 10, 80, 2), testing::EndsWith("0 of 10 pairs"));
    EXPECT_EQ(duration(3), "3 s");
    EXPECT_EQ(duration(125), "2 min 5 s");
    EXPECT_EQ(duration(7500), "2 h 5 min");
}

TEST(ProgressBar, NeverExceedsTheWidth) {
    for (int64_t width = 0; width < 200; ++width) {
        EXPECT_LE(progress_bar("load", "bytes", 5, 7, width, 3).size(), static_cast<size_t>(width));
        EXPECT_LE(progress_bar("load", "bytes", 5, 7, width).size(), static_cast<size_t>(width));
    }
    EXPECT_THAT(progress_bar("load", "bytes", 0, 0, 60), HasSubstr("100 %"));  // no work counts as done
}

TEST(ProgressMeter, DrawsAtMostTenTimesASecondAndWipes) {
    Recorder r;
    const ProgressSink sink = r.sink(true, /*terminal=*/true);
    {
        ProgressMeter meter("load", "bytes", sink);
        for (int i = 0; i < 1000; ++i) {
            r.now += 0.001;
            meter(i, 1000);
        }
    }
    EXPECT_GE(r.drawn.size(), 9u);
    EXPECT_LE(r.drawn.size(), 11u);
    EXPECT_EQ(r.drawn.back(), "\r\033[K");
    EXPECT_THAT(r.lines, IsEmpty());
}

TEST(ProgressMeter, LeavesTheLineToOthersWhenAllIsDone) {
    Recorder r;
    const ProgressSink sink = r.sink(true, /*terminal=*/true);
    {
        ProgressMeter meter("prefill", "tokens", sink);
        r.now += 1;
        meter(1, 2);
        meter(2, 2);
        ASSERT_EQ(r.drawn.back(), "\r\033[K");
        r.drawn.clear();  // other text is printed here
    }
    EXPECT_THAT(r.drawn, IsEmpty());
}

// Callers often create the sink and the meter in one expression.
TEST(ProgressMeter, KeepsItsSink) {
    Recorder r;
    std::optional<ProgressMeter> meter;
    meter.emplace("load", "bytes", r.sink(true, true));
    r.now += 1;
    (*meter)(1, 2);
    EXPECT_THAT(r.drawn, SizeIs(1));
}

TEST(ProgressMeter, WritesALineEveryTenSecondsElsewhere) {
    Recorder r;
    const ProgressSink sink = r.sink(true, /*terminal=*/false);
    {
        ProgressMeter meter("prefill", "tokens", sink);
        for (int i = 1; i <= 25; ++i) {
            r.now += 1;
            meter(i, 25);
        }
    }
    EXPECT_THAT(r.lines, ElementsAre("prefill: 40 %, 10 of 25 tokens, 1.0 tok/s, 10 s, 15 s left",
                                     "prefill: 80 %, 20 of 25 tokens, 1.0 tok/s, 20 s, 5 s left"));
    EXPECT_THAT(r.drawn, IsEmpty());
}

TEST(ProgressMeter, IsSilentWhenItIsQuickOrUnwanted) {
    Recorder r;
    const ProgressSink quick = r.sink(true, true), off = r.sink(false, true);
    {
        ProgressMeter a("load", "bytes", quick), b("load", "bytes", off);
        a(1, 1);
        r.now += 100;
        b(1, 1);
    }
    EXPECT_THAT(r.drawn, IsEmpty());
}

}  // namespace
}  // namespace trireme::test
