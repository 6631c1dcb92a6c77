#pragma once
/// Error: the only exception type of the program, with its exit code.

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace trireme {

/// Exit codes (sysexits). All ranks exit with the same code: the numerically largest of theirs.
enum class Exit : int {
    kOk = 0,
    kUsage = 64,        // unknown flag, contradictory flags
    kData = 65,         // content of a model, tokenizer or snapshot
    kNoInput = 66,      // a file that does not exist
    kUnavailable = 69,  // device or peer
    kInternal = 70,     // a bug in Trireme, or ranks that disagree
    kOs = 71,           // memory, memlock, file descriptors
    kCantCreate = 73,   // an output that cannot be created
    kIo = 74,           // read or write error
    kTryAgain = 75,     // a signal came and a snapshot was written: run again with --load-kv
    kPermission = 77,   // a file or folder that this user may not use
    kConfig = 78,       // a value out of range, a prompt beyond the context
};

/// An exit code, and one line that says what was found, what was expected, where, and what to do.
class Error : public std::runtime_error {
  public:
    Error(Exit code, std::string what) : std::runtime_error(without_nul(std::move(what))), code_(code) {}
    Exit code() const { return code_; }

  private:
    /// Escapes NUL bytes, at which what() would end. Quoted input can contain them.
    static std::string without_nul(std::string text) {
        for (size_t at = text.find('\0'); at != std::string::npos; at = text.find('\0', at)) {
            text.replace(at, 1, "\\x00");
        }
        return text;
    }

    Exit code_;
};

/// A format string and the source location of the call that has it (std::source_location is missing in clang 14).
template <class... Args>
struct FormatAt {
    template <class S>
    consteval FormatAt(const S& s, const char* f = __builtin_FILE(), int l = __builtin_LINE())  // NOLINT: implicit
        : text(s), file(f), line(l) {}
    fmt::format_string<Args...> text;
    const char* file;
    int line;
};

/// Throws Error(code) with a message for the user.
template <class... Args>
[[noreturn]] void fail(Exit code, fmt::format_string<std::type_identity_t<Args>...> text, Args&&... args) {
    throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error(Exit::kInternal), with file and line, if `condition` is false: a bug in Trireme.
template <class... Args>
void check(bool condition, FormatAt<std::type_identity_t<Args>...> at, Args&&... args) {
    if (!condition) [[unlikely]] {
        throw Error(Exit::kInternal,
                    fmt::format("{}:{}: {}", at.file, at.line, fmt::format(at.text, std::forward<Args>(args)...)));
    }
}

/// Throws Error(code) if `condition` is false: an error of the input, the user or the machine.
template <class... Args>
void require(bool condition, Exit code, fmt::format_string<std::type_identity_t<Args>...> text, Args&&... args) {
    if (!condition) [[unlikely]]
        throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace trireme
