// Files that a run writes: two of one name, names that another process takes during the run, full disks.

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Words generate(const Words& more) {
    Words words = {"generate", "-m", model(), "-n", "2", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(Outputs, TwoFlagsMayNotNameOneFile) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "real");
    std::filesystem::create_directory_symlink("real", folder / "link");
    for (const auto& [one, other] : std::vector<std::pair<std::string, std::string>>{
             {"x", "x"}, {"x", "./x"}, {"x", ".//x"}, {"x", "real/../x"}, {"real/x", "link/x"}, {"x", folder / "x"}}) {
        for (const bool force : {false, true}) {
            Words words = generate({"-p", "x", "--report-json", one, "--trace", other});
            if (force) words.push_back("--force");
            std::string line = "cd '" + folder.path() + "' && '" TRIREME_PROGRAM "'";
            for (const std::string& word : words) line += " '" + word + "'";
            const ProcessResult r = run_process({"bash", "-c", line});
            EXPECT_EQ(r.status, 64) << one << " " << other << r.err;
            EXPECT_THAT(lines_of(r.err), ElementsAre(HasSubstr("--report-json and --trace")));
            EXPECT_EQ(r.out, "");
        }
    }
    EXPECT_THAT(folder.names(), SizeIs(2));
    EXPECT_TRUE(std::filesystem::is_empty(folder / "real"));
}

// A trace has the spans of its own run alone, also if the process has made others.
TEST(Outputs, ATraceBeginsWithItsRun) {
    const TempFolder folder;
    size_t spans = 0;
    for (const char* name : {"one", "two"}) {
        ASSERT_EQ(trireme(generate({"-p", "x", "--trace", folder / name})).status, 0);
        const auto events = nlohmann::json::parse(read_file(folder / name)).at("traceEvents");
        EXPECT_GT(events.size(), 0u);
        if (spans > 0) {
            EXPECT_LT(events.size(), spans + spans / 2);
        }
        spans = events.size();
        for (const auto& event : events) EXPECT_LT(event.value("ts", 0.), 600e6) << event;  // us: ten minutes
    }
}

// The prompt comes from a pipe. Its writer waits for the reader, so the run has already checked that the name is free.
TEST(Outputs, ANameThatIsTakenMeanwhileIsNotOverwritten) {
    for (const auto& [flag, command] : {std::pair("--report-json", "generate"), std::pair("--trace", "generate"),
                                        std::pair("--dump-logits", "score")}) {
        for (const bool force : {false, true}) {
            const TempFolder folder;
            std::string line =
                std::string("cd '") + folder.path() + "' && mkfifo pipe && { '" TRIREME_PROGRAM "' " + command +
                " -m '" + model() + "' -f pipe -t 1 " + (std::string("generate") == command ? "-n 2 " : "") + flag +
                " out" + (force ? " --force" : "") +
                " & } && exec 3>pipe && printf theirs >out && printf 'In the beginning' >&3 && exec 3>&- "
                "&& wait $!";
            const ProcessResult r = run_process({"bash", "-c", line});
            EXPECT_THAT(folder.names(), ElementsAre("out", "pipe"));
            EXPECT_EQ(read_file(folder / "out") == "theirs", !force) << flag;
            EXPECT_EQ(r.status, force ? 0 : 73) << r.err;
            if (force) {
                EXPECT_THAT(error_lines(r), IsEmpty());
            } else {
                // score reserves its file after it has read the prompt; the others write theirs at the end.
                const char* const why = std::string("score") == command ? "out: exists; " : "out: exists by now";
                EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr(why)));
            }
        }
    }
}

/// Runs a line of bash, in which $DISK is a folder on a disk of `kib` KiB. Returns nothing if mounts are forbidden.
std::optional<ProcessResult> on_small_disk(int kib, const std::string& line) {
    const TempFolder folder;
    const std::string mount = "mount -t tmpfs -o size=" + std::to_string(kib) + "k none '" + folder.path() + "'";
    if (run_process({"unshare", "-m", "bash", "-c", mount}).status != 0) return std::nullopt;
    return run_process({"unshare", "-m", "bash", "-c", mount + " && export DISK='" + folder.path() + "' && " + line});
}

TEST(Outputs, AFullDiskIsFoundBeforeATextIsScored) {
    const std::string command = std::string("'" TRIREME_PROGRAM "' score -m '") + model() +
                                "' -t 1 -p 'In the beginning God created the heaven and the earth.'";
    const std::optional<ProcessResult> full =
        on_small_disk(32, command + " --dump-logits $DISK/l.h5; code=$?; ls -A $DISK >&2; exit $code");
    if (!full) GTEST_SKIP() << "a disk of 32 KiB cannot be mounted here";

    EXPECT_EQ(full->status, 74) << full->err;
    EXPECT_EQ(full->out, "");
    EXPECT_THAT(error_lines(*full), ElementsAre(HasSubstr("l.h5: ")));
    EXPECT_THAT(lines_of(full->err).back(), HasSubstr("l.h5: "));  // ls lists no file after it
}

// ulimit -f counts in KiB. A larger file causes a signal, which ends the process unless it ignores it.
TEST(Outputs, ALimitOnTheSizeOfFilesIsAnError) {
    const TempFolder folder;
    const std::string start = "cd '" + folder.path() + "' && ulimit -f 1 && '" TRIREME_PROGRAM "' ";
    const std::string prompt =
        " -m '" + model() + "' -t 1 -p 'In the beginning God created the heaven and the earth.' ";
    for (const std::string& words :
         {"generate" + prompt + "-n 4 --trace out", "generate" + prompt + "-n 4 --report-json out"}) {
        const ProcessResult r = run_process({"bash", "-c", start + words});
        EXPECT_EQ(r.status, 74) << words << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("out: cannot write")));
        EXPECT_THAT(folder.names(), IsEmpty());
        EXPECT_NE(r.out, "");
    }
    const ProcessResult dump = run_process({"bash", "-c", start + "score" + prompt + "--dump-logits out"});
    EXPECT_EQ(dump.status, 74) << dump.err;
    EXPECT_THAT(error_lines(dump), ElementsAre(HasSubstr("out: no room for 0.1 MB")));
    EXPECT_THAT(folder.names(), IsEmpty());
    EXPECT_EQ(dump.out, "");  // found before the text is scored
    const ProcessResult text = run_process({"bash", "-c", start + "score" + prompt + "--log-level error > text"});
    EXPECT_EQ(text.status, 0) << text.err;
    const ProcessResult ids = run_process({"bash", "-c",
                                           "head -c 4000 /dev/zero | tr '\\0' x > '" + (folder / "long") + "'; " +
                                               start + "tokenize -f long -m '" + model() + "' > ids"});
    EXPECT_EQ(ids.status, 74);
    EXPECT_THAT(error_lines(ids), ElementsAre(testing::AllOf(HasSubstr("stdout: "), HasSubstr("File too large"))));
}

}  // namespace
}  // namespace trireme::test
