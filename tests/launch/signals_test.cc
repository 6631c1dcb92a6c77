// SIGINT and SIGTERM before the first token: in a prefill whose layers take half a minute each.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"
#include "tests/launch/wide_model.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// A model whose prompt has 32 MB of KV per layer, with a link of 1 MB/s.
class SlowModel {
  public:
    Words request(const std::string& command = "generate") const {
        Words words = {command, "-m",           model_.path(), "--prompt-ids", model_.ids(2000), "-t",
                       "1",     "--kv-on-chip", "0",           "--link-gbps",  "0.001",          "--no-progress"};
        if (command == "generate") {
            words.insert(words.end(), {"-n", "2", "--print", "ids", "--report-json", folder_ / "report.json"});
        }
        if (command == "bench") words.insert(words.end(), {"-n", "2"});
        return words;
    }
    /// The file into which a rank's shell writes its process id.
    std::string pid_file(const std::string& rank) const { return folder_ / ("pid" + rank); }
    bool has_report() const { return testing::Value(folder_.names(), testing::Contains("report.json")); }

  private:
    WideModel model_;
    TempFolder folder_;
};

/// Log lines that report a signal. Other lines about it come from mpirun.
Words signal_lines(const ProcessResult& r) {
    Words lines;
    for (const std::string& line : lines_of(r.err)) {
        if (line.find("s] " + kStoppedBy) != std::string::npos) lines.push_back(line);
    }
    return lines;
}

constexpr double kSoon = 15;  // seconds; less than one layer takes
const std::string kBegun = "compute thread";

void expect_stopped(const ProcessResult& r, int status, const SlowModel& model) {
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_THAT(signal_lines(r), SizeIs(1)) << r.err;
    EXPECT_THAT(error_lines(r), IsEmpty()) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(model.has_report());
}

TEST(SignalInAPrefill, EndsARankAtOnce) {
    const SlowModel model;
    for (const int number : {SIGINT, SIGTERM}) {
        for (const char* command : {"generate", "score", "bench"}) {
            const ProcessResult r = trireme(
                model.request(command), {.timeout_s = kSoon, .signal_at_output = number, .signal_at_error = kBegun});
            expect_stopped(r, 128 + number, model);
            EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "signal " + std::to_string(number) + ": "));
        }
    }
}

// The signal goes to the first rank, or to another one.
TEST(SignalInAPrefill, ToOneRankEndsAll) {
    for (const char* rank : {"0", "1"}) {
        for (const int number : {SIGINT, SIGTERM}) {
            const SlowModel model;
            std::string line = "echo $$ > " + model.pid_file("$OMPI_COMM_WORLD_RANK") + "; exec '" TRIREME_PROGRAM "'";
            for (const std::string& word : model.request()) line += " '" + word + "'";
            const ProcessResult r =
                run_mpirun({TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "2", "bash", "-c", line},
                           {.timeout_s = kSoon,
                            .signal_at_output = number,
                            .signal_at_error = kBegun,
                            .signal_to = model.pid_file(rank)});
            expect_stopped(r, 128 + number, model);
        }
    }
}

// mpirun forwards a signal after a second, and does not always show what ranks print then.
TEST(SignalInAPrefill, ToTheLauncherEndsAll) {
    for (const int number : {SIGINT, SIGTERM}) {
        const SlowModel model;
        const ProcessResult r =
            trireme_on(2, model.request(), {.timeout_s = kSoon, .signal_at_output = number, .signal_at_error = kBegun});
        EXPECT_NE(r.status, 0);
        EXPECT_LE(signal_lines(r).size(), 1u) << r.err;
        EXPECT_THAT(error_lines(r), IsEmpty()) << r.err;
    }
}

}  // namespace
}  // namespace trireme::test
