#pragma once
/// The program under test: `trireme` in this process or as one of its own, or several ranks under mpirun.

#include <string>
#include <vector>

#include "tests/support/process.h"

namespace trireme::test {

using Words = std::vector<std::string>;

inline Words operator+(Words a, const Words& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

/// The program as a process of its own: for tests of an environment, signals, limits, files near the executable, or
/// what lasts until the process ends.
inline ProcessResult trireme_process(const Words& words, const ProcessOptions& options = {}) {
    Words argv = {TRIREME_PROGRAM};
    argv.insert(argv.end(), words.begin(), words.end());
    return run_process(argv, options);
}

/// The program in this process (launch/program.h). An environment or a signal makes it a process of its own.
ProcessResult trireme(const Words& words, const ProcessOptions& options = {});

inline ProcessResult trireme_on(int ranks, const Words& words, ProcessOptions options = {}) {
    Words argv = {TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(ranks)};
    argv.push_back(TRIREME_PROGRAM);
    argv.insert(argv.end(), words.begin(), words.end());
    return run_mpirun(argv, options);
}

/// Lines that report an error; mpirun adds its own text around them.
inline Words error_lines(const ProcessResult& r) {
    Words errors;
    for (const std::string& line : lines_of(r.err)) {
        if (line.find("trireme: error: ") != std::string::npos) errors.push_back(line);
    }
    return errors;
}

inline std::string data(const std::string& name) {
    return std::string(TRIREME_TEST_DATA) + "/" + name;
}

/// Parts of messages that have no key: a flag that nothing reads, the reason why a run ended, and what a resumed run
/// continues with.
inline const std::string kNoEffect = "has no effect", kStoppedBy = "stopped by ", kExactTokens = "exactly its tokens",
                         kSameDistribution = "same distribution";

/// A small model for all commands: Llama, 6 layers, 4 heads on 2 KV heads, 1024 sentencepiece ids, context 2048.
inline std::string model() {
    return data("models/kjv-target");
}

}  // namespace trireme::test
