#include "launch/report/output.h"

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/run/signals.h"
#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

Exit refusal(const std::string& path, bool force = false) {
    try {
        probe_output("--trace", path, force);
    } catch (const Error& e) {
        EXPECT_THAT(e.what(), testing::StartsWith("--trace " + path + ": "));
        return e.code();
    }
    return Exit::kOk;
}

TEST(ProbeOutput, LeavesNoFile) {
    const TempFolder folder;

    EXPECT_EQ(refusal(folder / "new"), Exit::kOk);
    EXPECT_EQ(refusal(""), Exit::kOk);

    EXPECT_TRUE(folder.names().empty());
}

TEST(ProbeOutput, OverwritesRegularFilesOnlyWhenForced) {
    const TempFolder folder;
    write_file(folder / "old", "kept");
    ASSERT_EQ(::symlink("old", (folder / "link").c_str()), 0);
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);

    EXPECT_EQ(refusal(folder / "old"), Exit::kCantCreate);
    EXPECT_EQ(refusal(folder / "old", /*force=*/true), Exit::kOk);
    for (const std::string& path : {folder / "link", folder / "pipe", folder.path(), std::string("/dev/null")}) {
        EXPECT_EQ(refusal(path), Exit::kCantCreate) << path;
        EXPECT_EQ(refusal(path, /*force=*/true), Exit::kCantCreate) << path;
    }
    EXPECT_EQ(read_file(folder / "old"), "kept");
}

TEST(ProbeOutput, RequiresAWritableFolder) {
    const TempFolder folder;
    write_file(folder / "file", "");

    EXPECT_EQ(refusal(folder / "none/new"), Exit::kCantCreate);
    EXPECT_EQ(refusal(folder / "file/new"), Exit::kCantCreate);
    EXPECT_EQ(refusal(folder / "none/"), Exit::kCantCreate);
    if (::geteuid() == 0) return;  // root may write anywhere
    ::chmod(folder.path().c_str(), 0500);
    EXPECT_EQ(refusal(folder / "new"), Exit::kPermission);
    ::chmod(folder.path().c_str(), 0700);
}

TEST(TextOut, WritesAtOnceAndNoticesAClosedPipe) {
    ignore_signals_of_writes();
    int fds[2];
    ASSERT_EQ(::pipe(fds), 0);
    TextOut out(fds[1]);

    EXPECT_TRUE(out.write("abc"));
    char got[8] = {};
    EXPECT_EQ(::read(fds[0], got, sizeof got), 3);
    EXPECT_EQ(out.last(), 'c');
    EXPECT_TRUE(out.write(""));
    ::close(fds[0]);
    EXPECT_FALSE(out.write("d"));
    EXPECT_TRUE(out.closed());
    EXPECT_FALSE(out.write("e"));
    ::close(fds[1]);
}

TEST(TextOut, ReportsAFullDisk) {
    const int fd = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    TextOut out(fd);

    try {
        out.write("abc");
        ADD_FAILURE() << "written";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kIo);
    }
    ::close(fd);
}

}  // namespace
}  // namespace trireme::test
