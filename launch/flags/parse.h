#pragma once
/// Strict parsers of flag values. The whole text must be a value: no blanks, no '+', no hexadecimal, no nan, no
/// infinity, and nothing that overflows or rounds to zero.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Each returns nothing if the text is not such a value.
std::optional<int64_t> parse_integer(std::string_view text);
std::optional<uint64_t> parse_unsigned(std::string_view text);
/// A whole number, optionally with k, m, g (powers of 1000) or K, M, G (powers of 1024): 128k is 128000, 128K 131072.
std::optional<int64_t> parse_size(std::string_view text);
std::optional<double> parse_real(std::string_view text);
/// Accepts on, true, yes, 1 and off, false, no, 0.
std::optional<bool> parse_switch(std::string_view text);

/// A flag's value as it was written, with its source. Each member function reads it as one type, and fails with
/// Exit::kConfig; the message names the source, the text and the legal values.
struct Setting {
    std::string where;  // the source: "--top-k", "TRIREME_TOP_K" or "demo.ini:4: top-k"
    std::string text;   // the value
    bool first = true;  // first of this flag in its source: a repeatable flag then starts a new list

    /// Both bounds are legal. `or_else` names further legal values, for the message.
    int64_t integer(int64_t least, int64_t most, const char* or_else = "") const;
    uint64_t any_unsigned(const char* or_else = "") const;
    /// Like integer(), with the units of parse_size().
    int64_t size(int64_t least, int64_t most, const char* or_else = "") const;
    double real(double least, double most) const;
    /// Excludes the lower bound.
    double real_above(double bound, double most) const;
    /// As parse_switch().
    bool on() const;
    /// Returns the index of the text in `names`.
    size_t one_of(std::span<const std::string_view> names) const;
    size_t one_of(std::initializer_list<std::string_view> names) const {
        return one_of(std::span(names.begin(), names.size()));
    }
    /// Returns the text, which must not be empty.
    const std::string& word() const;
};

}  // namespace trireme
