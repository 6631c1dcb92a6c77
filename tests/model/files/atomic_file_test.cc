#include "runtime/atomic_file.h"

#include <csignal>
#include <cstddef>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
        write_file_atomically(path, bytes_of(text), IfThere::kReplace);
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
        for (const IfThere old : {IfThere::kReplace, IfThere::kRefuse}) {
            expect_error([&] { write_file_atomically(folder.path() / name, bytes_of("new"), old); }, Exit::kCantCreate,
                         {});
        }
    }
    EXPECT_EQ(slurp(kept), "old");
    EXPECT_EQ(names_in(folder.path()).size(), 3u);
}

TEST(AtomicFile, AFailedWriteLeavesTheOldFileAndNoRest) {
    const TempFolder folder;
    const fs::path path = folder.write("out", "old");
    const std::string big(1 << 20, 'x');

    // In a child process, because the limit on file sizes applies to a process. SIGXFSZ is ignored, so that write()
    // fails.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4096, 4096};
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file_atomically(path, bytes_of(big), IfThere::kReplace);
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

/// After this call, these system calls fail with `error` in this process and its children.
void deny(std::vector<std::pair<long, int>> calls) {
    std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
    for (const auto& [number, error] : calls) {
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1));
        program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        _exit(1);
    }
}

// Several runs write the same name: on file systems with a rename that does not replace, on those without (NFS), and on
// those that also lack hard links (exFAT).
TEST(AtomicFile, OneOfSeveralWritersGetsAFreshName) {
    const std::vector<std::vector<std::pair<long, int>>> missing = {
        {},
        {{SYS_renameat2, EINVAL}},
        {{SYS_renameat2, ENOSYS}, {SYS_linkat, EPERM}},
#ifdef SYS_link
        {{SYS_renameat2, EINVAL}, {SYS_linkat, EPERM}, {SYS_link, EPERM}},
#endif
    };
    for (const auto& calls : missing) {
        const TempFolder folder;
        const fs::path path = folder.path() / "out";
        std::vector<pid_t> writers;
        for (int i = 0; i < 8; ++i) {
            writers.push_back(fork());
            ASSERT_GE(writers.back(), 0);
            if (writers.back() != 0) continue;
            deny(calls);
            try {
                write_file_atomically(path, bytes_of(std::string(100000, static_cast<char>('a' + i))),
                                      IfThere::kRefuse);
                _exit(0);
            } catch (const Error& e) {
                _exit(static_cast<int>(e.code()));
            }
        }
        std::vector<int> ends;
        for (const pid_t writer : writers) {
            int status = 0;
            ASSERT_EQ(waitpid(writer, &status, 0), writer);
            ASSERT_TRUE(WIFEXITED(status));
            ends.push_back(WEXITSTATUS(status));
        }
        const auto winner = std::find(ends.begin(), ends.end(), 0);
        ASSERT_NE(winner, ends.end());
        EXPECT_EQ(std::count(ends.begin(), ends.end(), 0), 1) << calls.size();
        EXPECT_EQ(std::count(ends.begin(), ends.end(), static_cast<int>(Exit::kCantCreate)), 7) << calls.size();
        EXPECT_EQ(slurp(path), std::string(100000, static_cast<char>('a' + (winner - ends.begin()))));
        EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
    }
}

TEST(AtomicFile, WhatIsThereStaysUnlessItMayBeReplaced) {
    const TempFolder folder;
    const fs::path path = folder.write("out", "old");

    expect_error([&] { write_file_atomically(path, bytes_of("new"), IfThere::kRefuse); }, Exit::kCantCreate,
                 {"out: exists by now", "force"});

    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"out"});
}

}  // namespace
}  // namespace trireme::test
