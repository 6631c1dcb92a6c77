#include "runtime/atomic_file.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
    return names;
}

TEST(AtomicFile, WritesAndReplaces) {
    const TempFolder folder;
    const fs::path path = folder.path() / "out";
    for (const std::string& text : {std::string("first"), std::string(3000000, 'x'), std::string()}) {
        write_file_atomically(path, bytes_of(text));
        EXPECT_EQ(slurp(path), text);
        EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
    }
}

TEST(AtomicFile, RefusesTargetsThatAreNoFiles) {
    const TempFolder folder;
    fs::create_directory(folder.path() / "folder");
    const fs::path kept = folder.write("kept", "old");
    fs::create_symlink("kept", folder.path() / "link");

    for (const char* name : {"folder", "link", "folder/", "none/out", "kept/out"}) {
        SCOPED_TRACE(name);
        expect_error([&] { write_file_atomically(folder.path() / name, bytes_of("new")); }, Exit::kCantCreate, {});
    }
    EXPECT_EQ(slurp(kept), "old");
    EXPECT_EQ(names_in(folder.path()).size(), 3u);
}

TEST(AtomicFile, AFailedWriteLeavesTheOldFileAndNoRest) {
    const TempFolder folder;
    const fs::path path = folder.write("out", "old");
    const std::string big(1 << 20, 'x');

    // In a child, for a limit on the size of files is the process's. Its signal is ignored: write then fails.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4096, 4096};
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file_atomically(path, bytes_of(big));
            _exit(0);
        } catch (const Error& e) {
            _exit(static_cast<int>(e.code()));
        }
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);

    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(Exit::kIo));
    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
}

}  // namespace
}  // namespace trireme::test
