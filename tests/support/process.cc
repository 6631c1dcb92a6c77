#include "tests/support/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using Pipe = std::array<int, 2>;  // read end, write end

Pipe make_pipe() {
    Pipe p{-1, -1};
    EXPECT_EQ(::pipe2(p.data(), O_CLOEXEC), 0);
    return p;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> p;
    for (std::string& s : strings) p.push_back(s.data());
    p.push_back(nullptr);
    return p;
}

// Reads what is available; returns false at the end of the stream.
bool drain(int fd, std::string& text) {
    char block[4096];
    const ssize_t n = ::read(fd, block, sizeof block);
    if (n > 0) text.append(block, static_cast<size_t>(n));
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

// Writes what fits; returns false when all is written, or the reader has closed the pipe.
bool feed(int fd, std::string& rest) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    rest.erase(0, static_cast<size_t>(n));
    return !rest.empty();
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options) {
    std::vector<std::string> words = argv, variables = options.environment;
    for (char** e = environ; *e != nullptr; ++e) {
        if (!std::string(*e).starts_with("TRIREME_")) variables.emplace_back(*e);
    }
    Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
    std::vector<char*> word_pointers = pointers(words), variable_pointers = pointers(variables);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(in[0], STDIN_FILENO);
        ::dup2(out[1], STDOUT_FILENO);
        ::dup2(err[1], STDERR_FILENO);
        ::execvpe(word_pointers[0], word_pointers.data(), variable_pointers.data());
        ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    ::close(err[1]);
    ::fcntl(in[1], F_SETFL, O_NONBLOCK);
    const auto before = std::signal(SIGPIPE, SIG_IGN);

    ProcessResult result;
    std::string input = options.input;
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::duration<double>(options.timeout_s);
    std::array<pollfd, 3> fds = {{{in[1], POLLOUT, 0}, {out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
    bool signalled = options.signal_at_output == 0, killed = false;
    const auto finish = [](pollfd& p) {
        ::close(p.fd);
        p.fd = -1;
    };
    if (input.empty()) finish(fds[0]);
    while (fds[1].fd >= 0 || fds[2].fd >= 0) {
        ::poll(fds.data(), fds.size(), 100);
        if (fds[0].fd >= 0 && fds[0].revents != 0 && !feed(fds[0].fd, input)) finish(fds[0]);
        if (fds[1].fd >= 0 && fds[1].revents != 0 && !drain(fds[1].fd, result.out)) finish(fds[1]);
        if (fds[2].fd >= 0 && fds[2].revents != 0 && !drain(fds[2].fd, result.err)) finish(fds[2]);
        const bool due = options.signal_at_error.empty()
                             ? !result.out.empty()
                             : result.err.find(options.signal_at_error) != std::string::npos;
        if (!signalled && due) {
            ::kill(options.signal_to.empty() ? child : std::stoi(read_file(options.signal_to)),
                   options.signal_at_output);
            signalled = true;
        }
        if (!killed && Clock::now() > deadline) {
            ADD_FAILURE() << argv[0] << " took longer than " << options.timeout_s << " s; killed";
            ::kill(child, SIGKILL);
            killed = true;
        }
    }
    if (fds[0].fd >= 0) finish(fds[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    std::signal(SIGPIPE, before);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

ProcessResult run_mpirun(const std::vector<std::string>& argv, const ProcessOptions& options) {
    const auto crashed = [](const ProcessResult& r) {
        return r.status == 128 + SIGSEGV && r.err.find("PMIx_server_finalize") != std::string::npos;
    };
    ProcessResult r = run_process(argv, options);
    for (int again = 0; again < 2 && crashed(r); ++again) {
        std::fprintf(stderr, "mpirun crashed as it left; once more\n%s\n", r.err.c_str());
        r = run_process(argv, options);
    }
    return r;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

TempFolder::TempFolder() : path_(testing::TempDir() + "trireme-XXXXXX") {
    EXPECT_NE(::mkdtemp(path_.data()), nullptr);
}

TempFolder::~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> TempFolder::names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
        all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
}

std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in.good()) << path;
    return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream out(path, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(out.good()) << path;
}

}  // namespace trireme::test
