#pragma once
/// The contract of every fuzz target: bad input gives an Error that blames the input, and nothing else.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "runtime/error.h"

namespace trireme::fuzz {

inline std::span<const std::byte> bytes_of(const uint8_t* data, size_t size) {
    return std::as_bytes(std::span(data, size));
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

/// Reports a finding that no sanitizer would notice.
inline void expect(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz: %s\n", what);
    std::abort();
}

/// Runs one parse. Bad input must give Exit::kData, and a value that does not fit the user's type kConfig. Any other
/// code is a bug; any other exception ends the run. The message is one line without control characters, whatever the
/// input holds.
template <class F>
int run(F parse) {
    try {
        parse();
    } catch (const Error& e) {
        expect(e.code() == Exit::kData || e.code() == Exit::kConfig, e.what());
        for (const char c : std::string_view(e.what()))
            expect(static_cast<unsigned char>(c) >= ' ' && c != '\x7F', "a message with control characters");
    }
    return 0;
}

}  // namespace trireme::fuzz
