#include "launch/flags/parse.h"

#include <charconv>
#include <cmath>

#include "runtime/error.h"

namespace trireme {
namespace {

// from_chars accepts neither blanks, '+' nor a hexadecimal prefix; any text that it leaves unread is an error.
template <class T>
std::optional<T> whole(std::string_view text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || at != end) return std::nullopt;
    return value;
}

[[noreturn]] void refuse(const Setting& s, std::string_view legal) {
    fail(Exit::kConfig, "{} '{}': want {}", s.where, s.text, legal);
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text) {
    return whole<int64_t>(text);
}

std::optional<uint64_t> parse_unsigned(std::string_view text) {
    return whole<uint64_t>(text);
}

std::optional<int64_t> parse_size(std::string_view text) {
    int64_t unit = 1;
    if (!text.empty()) {
        switch (text.back()) {
            case 'k':
                unit = 1'000;
                break;
            case 'm':
                unit = 1'000'000;
                break;
            case 'g':
                unit = 1'000'000'000;
                break;
            case 'K':
                unit = int64_t{1} << 10;
                break;
            case 'M':
                unit = int64_t{1} << 20;
                break;
            case 'G':
                unit = int64_t{1} << 30;
                break;
            default:
                break;
        }
        if (unit != 1) text.remove_suffix(1);
    }
    const std::optional<int64_t> n = whole<int64_t>(text);
    int64_t product = 0;
    if (!n || __builtin_mul_overflow(*n, unit, &product)) return std::nullopt;
    return product;
}

std::optional<double> parse_real(std::string_view text) {
    const std::optional<double> x = whole<double>(text);
    if (!x || !std::isfinite(*x)) return std::nullopt;
    return x;
}

std::optional<bool> parse_switch(std::string_view text) {
    for (const std::string_view yes : {"on", "true", "yes", "1"}) {
        if (text == yes) return true;
    }
    for (const std::string_view no : {"off", "false", "no", "0"}) {
        if (text == no) return false;
    }
    return std::nullopt;
}

int64_t Setting::integer(int64_t least, int64_t most, const char* or_else) const {
    const std::optional<int64_t> n = parse_integer(text);
    if (!n || *n < least || *n > most)
        refuse(*this, fmt::format("a whole number from {} to {}{}", least, most, or_else));
    return *n;
}

uint64_t Setting::any_unsigned(const char* or_else) const {
    const std::optional<uint64_t> n = parse_unsigned(text);
    if (!n) refuse(*this, fmt::format("a whole number from 0 to {}{}", UINT64_MAX, or_else));
    return *n;
}

int64_t Setting::size(int64_t least, int64_t most, const char* or_else) const {
    const std::optional<int64_t> n = parse_size(text);
    if (!n || *n < least || *n > most) {
        refuse(*this, fmt::format("a whole number from {} to {}{}; k means 1000, K 1024", least, most, or_else));
    }
    return *n;
}

double Setting::real(double least, double most) const {
    const std::optional<double> x = parse_real(text);
    if (!x || !(*x >= least && *x <= most)) refuse(*this, fmt::format("a number from {} to {}", least, most));
    return *x;
}

double Setting::real_above(double bound, double most) const {
    const std::optional<double> x = parse_real(text);
    if (!x || !(*x > bound && *x <= most)) refuse(*this, fmt::format("a number above {}, at most {}", bound, most));
    return *x;
}

bool Setting::on() const {
    const std::optional<bool> b = parse_switch(text);
    if (!b) refuse(*this, "on or off");
    return *b;
}

size_t Setting::one_of(std::span<const std::string_view> names) const {
    size_t i = 0;
    std::string legal;
    for (const std::string_view name : names) {
        if (text == name) return i;
        legal += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " or " : ", ", name);
        ++i;
    }
    refuse(*this, legal);
}

const std::string& Setting::word() const {
    if (text.empty()) refuse(*this, "something that is not empty");
    return text;
}

}  // namespace trireme
