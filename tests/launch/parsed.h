#pragma once
/// Short forms of the command line parser, for tests.

#include <string>
#include <vector>

#include "launch/flags/command_line.h"
#include "runtime/error.h"

namespace trireme::test {

using Words = std::vector<std::string>;

inline Invocation parse(const Words& words, const Words& environment = {}) {
    return parse_command_line(words, environment);
}

/// Options of generate with a model, a prompt and `more`.
inline Options options(Words more, const Words& environment = {}) {
    Words words = {"generate", "-m", "M", "-p", "P"};
    words.insert(words.end(), more.begin(), more.end());
    return parse(words, environment).options;
}

/// Exit code and message: "78 message"; "accepted" if there is no error.
inline std::string refusal(const Words& words, const Words& environment = {}) {
    try {
        parse(words, environment);
    } catch (const Error& e) {
        return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
    }
    return "accepted";
}
inline std::string refused_with(Words more, const Words& environment = {}) {
    Words words = {"generate", "-m", "M", "-p", "P"};
    words.insert(words.end(), more.begin(), more.end());
    return refusal(words, environment);
}

}  // namespace trireme::test
