// Files of run records: runs are appended, and none is lost.

#include "launch/record/record_file.h"

#include <csignal>
#include <filesystem>
#include <numeric>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/files/store/writer.h"
#include "runtime/part_file.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr auto kPatience = 60s;

class RecordFileTest : public testing::Test {
  protected:
    std::string path() const { return folder_ / "runs.h5"; }

    /// Appends a run with a table of `rows` x 3 numbers that begin at `first`.
    int64_t append(int64_t first, int64_t rows = 5, std::chrono::milliseconds patience = kPatience) const {
        std::vector<int64_t> numbers(static_cast<size_t>(rows) * 3);
        std::iota(numbers.begin(), numbers.end(), first);
        return append_run(
            path(), fmt::format(R"({{"first":{}}})", first),
            {{{.name = "rounds", .type = DType::kI64, .shape = {rows, 3}}, std::as_bytes(std::span(numbers))},
             {{.name = "spans", .type = DType::kI64, .shape = {0, 6}}, {}}},
            patience);
    }
    /// Checks the table of run `number` and returns its first value; -1: there is no such run.
    static int64_t first_of(const StoreReader& reader, int64_t number) {
        const StoreSet* const set = reader.find(fmt::format("runs/{:04}/rounds", number));
        if (set == nullptr) return -1;
        const std::vector<int64_t> numbers = reader.all<int64_t>(*set);
        for (size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], numbers[0] + static_cast<int64_t>(i));
        const auto text = reader.all<char>(reader.set(fmt::format("runs/{:04}/about", number), DType::kU8, 1));
        EXPECT_EQ(std::string(text.begin(), text.end()), fmt::format(R"({{"first":{}}})", numbers[0]));
        return numbers[0];
    }
    /// first_of() for all runs; their numbers have no gap.
    std::vector<int64_t> firsts() const {
        const std::unique_ptr<StoreReader> reader = open_record(path());
        std::vector<int64_t> all;
        for (int64_t first = first_of(*reader, 0); first >= 0; first = first_of(*reader, std::ssize(all))) {
            all.push_back(first);
        }
        EXPECT_EQ(reader->sets().size(), 3 * all.size() + 1);
        return all;
    }
    /// For child processes: returns 0, or 1 if appending fails.
    int attempt_append(int64_t first) const {
        try {
            append(first);
            return 0;
        } catch (const Error&) {
            return 1;
        }
    }
    std::string error_of(const std::function<void()>& work, Exit code) const {
        try {
            work();
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), code) << e.what();
            return e.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }

    TempFolder folder_;
};

TEST_F(RecordFileTest, GetsRunAfterRun) {
    probe_record(path());
    EXPECT_THAT(folder_.names(), ElementsAre());

    EXPECT_EQ(append(100), 0);
    EXPECT_EQ(append(7, 50001), 1);  // 1.2 MB: more than one block
    probe_record(path());
    EXPECT_EQ(append(0, 1), 2);

    EXPECT_THAT(firsts(), ElementsAre(100, 7, 0));
    EXPECT_THAT(folder_.names(), ElementsAre("runs.h5"));
}

TEST_F(RecordFileTest, KeepsWhatAnotherVersionWrote) {
    const std::vector<StoreSet> sets = {{"runs/0041/about", DType::kU8, {2}},
                                        {"runs/0041/deeper/numbers", DType::kF32, {2, 2}},
                                        {"notes", DType::kU8, {3}}};
    const std::vector<float> numbers = {1, 2, 3, 4};
    StoreWriter writer(path(), IfThere::kRefuse, "run record", sets, R"({"format":99,"more":[]})");
    writer.append(0, std::as_bytes(std::span("{}", 2)));
    writer.append(1, std::as_bytes(std::span(numbers)));
    writer.append(2, std::as_bytes(std::span("abc", 3)));
    writer.publish();

    EXPECT_EQ(append(5), 42);

    const std::unique_ptr<StoreReader> reader = open_record(path());
    EXPECT_EQ(reader->all<float>(reader->set("runs/0041/deeper/numbers", DType::kF32, 2)), numbers);
    EXPECT_THAT(reader->all<char>(reader->set("notes", DType::kU8, 1)), ElementsAre('a', 'b', 'c'));
    EXPECT_EQ(first_of(*reader, 42), 5);
}

TEST_F(RecordFileTest, RefusesWhatIsNoRecord) {
    write_file(path(), "a text");
    EXPECT_THAT(error_of([&] { probe_record(path()); }, Exit::kData),
                AllOf(HasSubstr("runs.h5: "), HasSubstr("trireme's")));
    EXPECT_THAT(error_of([&] { append(1); }, Exit::kData), HasSubstr("trireme's"));
    EXPECT_EQ(read_file(path()), "a text");

    StoreWriter(path(), IfThere::kReplace, "kv snapshot", {}, "{}").publish();
    const std::string other = read_file(path());
    EXPECT_THAT(error_of([&] { probe_record(path()); }, Exit::kData), HasSubstr("kv snapshot"));
    EXPECT_THAT(error_of([&] { append(1); }, Exit::kData), HasSubstr("kv snapshot"));
    EXPECT_EQ(read_file(path()), other);

    EXPECT_THAT(error_of([&] { probe_record(folder_.path()); }, Exit::kCantCreate), HasSubstr("no regular file"));
    EXPECT_THAT(error_of([&] { probe_record(folder_ / "none/runs.h5"); }, Exit::kCantCreate),
                HasSubstr("--record " + (folder_ / "none/runs.h5") + ": "));
    EXPECT_THAT(folder_.names(), ElementsAre("runs.h5"));
}

TEST_F(RecordFileTest, NoticesEveryDamagedByte) {
    append(3);
    const std::string whole = read_file(path());
    std::mt19937 random(1);
    for (int i = 0; i < 400; ++i) {
        std::string damaged = whole;
        const size_t at = random() % damaged.size();
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
        if (i % 4 == 0) damaged = whole.substr(0, at);
        write_file(path(), damaged);
        error_of([&] { probe_record(path()); }, Exit::kData);
        error_of([&] { append(4); }, Exit::kData);
        EXPECT_EQ(read_file(path()), damaged) << at;
    }
}

TEST_F(RecordFileTest, WaitsForAWriterAndNamesIt) {
    append(1);
    auto other = std::make_unique<PartFile>(path(), IfThere::kReplace);
    EXPECT_THAT(error_of([&] { append(2, 5, 100ms); }, Exit::kCantCreate),
                AllOf(HasSubstr(fmt::format("process {}", ::getpid())), HasSubstr("for 0.1 s")));

    int waited = 0;
    std::thread late([&] {
        std::this_thread::sleep_for(200ms);
        other.reset();
    });
    append_run(path(), R"({"first":9})", {}, kPatience, [&] { ++waited; });
    late.join();
    EXPECT_GT(waited, 1);
    EXPECT_EQ(open_record(path())->sets().size(), 3u + 1u + 1u);
}

// The other run will have finished writing when this run ends.
TEST_F(RecordFileTest, MayBeginWhileAnotherRunIsWriting) {
    const PartFile held(path(), IfThere::kReplace);

    EXPECT_NO_THROW(probe_record(path()));
}

TEST_F(RecordFileTest, LosesNoRunOfProcessesThatAppendAtOnce) {
    constexpr int kProcesses = 4, kRuns = 12;
    std::vector<pid_t> children;
    for (int p = 0; p < kProcesses; ++p) {
        children.push_back(::fork());
        if (children.back() != 0) continue;
        int failed = 0;
        for (int r = 0; r < kRuns; ++r) failed |= attempt_append(p * 1000 + r);
        ::_exit(failed);
    }
    for (const pid_t child : children) {
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
    }
    std::vector<int64_t> wanted;
    for (int p = 0; p < kProcesses; ++p) {
        for (int r = 0; r < kRuns; ++r) wanted.push_back(p * 1000 + r);
    }
    EXPECT_THAT(firsts(), testing::UnorderedElementsAreArray(wanted));
    EXPECT_THAT(folder_.names(), ElementsAre("runs.h5"));
}

TEST_F(RecordFileTest, KeepsEarlierRunsWhereAProcessIsKilled) {
    std::mt19937 random(7);
    append(0, 60000);
    for (int i = 0; i < 40; ++i) {
        const std::vector<int64_t> before = firsts();
        const pid_t child = ::fork();
        if (child == 0) {
            for (int64_t r = 0;; ++r) std::ignore = attempt_append(1000 * (i + 1) + r);
        }
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);

        const std::vector<int64_t> after = firsts();
        ASSERT_GE(after.size(), before.size());
        EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
        if (after.size() > 60) std::filesystem::remove(path());
        if (after.size() > 60) append(0, 60000);
    }
    append(1);
    EXPECT_THAT(folder_.names(), ElementsAre("runs.h5"));  // this run has replaced temporary files of killed runs
}

}  // namespace
}  // namespace trireme::test
