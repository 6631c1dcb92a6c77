// --record: what is refused before a run begins, and what `trireme report` requires. tests/record.py checks the content
// of records.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Words generate(const Words& more) {
    Words words = {"generate", "-m", model(), "-p", "In the beginning", "-n", "4", "-t", "1", "--no-progress"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(RecordedRun, IsRefusedBeforeItBeginsWhereItCouldNotBeRecorded) {
    const TempFolder folder;
    const std::string file = folder / "runs.h5";
    write_file(folder / "requests.jsonl", R"({"prompt": "In the beginning"})");
    const std::vector<Words> commands = {
        generate({"--record", file}),
        {"bench", "-m", model(), "-p", "In the beginning", "-n", "4", "-r", "1", "--record", file},
        {"batch", "-m", model(), "--input", folder / "requests.jsonl", "-o", folder / "texts.jsonl", "-n", "4",
         "--record", file}};
    write_file(file, "a user's notes");
    for (const Words& words : commands) {
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, 65) << words[0];
        EXPECT_EQ(r.out, "");
        EXPECT_THAT(lines_of(r.err), ElementsAre(AllOf(HasSubstr("runs.h5: "), HasSubstr("trireme's"))));
        EXPECT_EQ(read_file(file), "a user's notes");
    }
    EXPECT_THAT(folder.names(), SizeIs(2));

    const ProcessResult same = trireme(generate({"--record", file, "--report-json", file, "--force"}));
    EXPECT_EQ(same.status, 64);
    EXPECT_THAT(lines_of(same.err), ElementsAre(HasSubstr("--record and --report-json")));
}

TEST(RecordedRun, IsAppendedWithoutForce) {
    const TempFolder folder;
    for (const int ranks : {1, 2, 1}) {
        const Words words = generate({"--record", folder / "runs.h5"});
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(r.status, 0) << r.err;
    }
    const ProcessResult last = trireme(generate({"--record", folder / "runs.h5"}));
    EXPECT_THAT(last.err, HasSubstr("run 3 of "));
    EXPECT_THAT(folder.names(), ElementsAre("runs.h5"));
}

TEST(Report, SaysInOneLineWhatIsMissing) {
    const TempFolder folder;
    const std::string file = folder / "runs.h5", out = folder / "pages";
    ASSERT_EQ(trireme(generate({"--record", file})).status, 0);
    const auto report = [&](const Words& words, const std::string& python) {
        Words all = {"report"};
        all.insert(all.end(), words.begin(), words.end());
        return trireme(all, {.environment = {"TRIREME_PYTHON=" + python}});
    };
    const auto refused = [&](const ProcessResult& r, int status, const auto& line) {
        EXPECT_EQ(r.status, status);
        EXPECT_EQ(r.out, "");
        EXPECT_THAT(lines_of(r.err), ElementsAre(line));
        EXPECT_FALSE(std::filesystem::exists(out));
    };
    refused(report({file, "-o", out}, folder / "none"), 69,
            AllOf(HasSubstr((folder / "none") + " "), HasSubstr("apt-get install python3")));
    // A Python without packages.
    write_file(folder / "bare", "#!/bin/sh\nexec /usr/bin/env python3 -I -S \"$@\"\n");
    std::filesystem::permissions(folder / "bare", std::filesystem::perms::owner_all);
    refused(report({file, "-o", out}, folder / "bare"), 69,
            AllOf(HasSubstr(" h5py, matplotlib: "), HasSubstr(" -m pip install h5py matplotlib"),
                  HasSubstr("apt-get install python3-h5py python3-matplotlib")));

    // A damaged file is refused before Python starts; this stand-in for Python would print a line.
    write_file(folder / "never", "#!/bin/sh\necho python was started\n");
    std::filesystem::permissions(folder / "never", std::filesystem::perms::owner_all);
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(folder / "damaged.h5", bytes);
    refused(report({file, folder / "damaged.h5", "-o", out}, folder / "never"), 65, HasSubstr("damaged.h5: "));
    refused(report({file, folder / "no.h5", "-o", out}, folder / "never"), 66, HasSubstr("no.h5"));
    refused(report({"-o", out}, folder / "never"), 64, HasSubstr("no records"));
    refused(report({file}, folder / "never"), 64, HasSubstr("-o FOLDER"));
    EXPECT_EQ(report({file, "-o", out}, folder / "never").out, "python was started\n");
}

TEST(Report, PassesOnTheScriptsExitCode) {
    const TempFolder folder;
    ASSERT_EQ(trireme(generate({"--record", folder / "runs.h5"})).status, 0);
    write_file(folder / "python", "#!/bin/sh\nexit 73\n");
    std::filesystem::permissions(folder / "python", std::filesystem::perms::owner_all);
    const ProcessResult r = trireme({"report", folder / "runs.h5", "-o", folder / "pages"},
                                    {.environment = {"TRIREME_PYTHON=" + (folder / "python")}});
    EXPECT_EQ(r.status, 73);
    EXPECT_THAT(r.err, IsEmpty());
}

}  // namespace
}  // namespace trireme::test
