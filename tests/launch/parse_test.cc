#include "launch/flags/parse.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme {
namespace {

__extension__ typedef __int128 Wide;

// An independent parser to compare with: one character at a time, in 128 bits, saturating.
std::optional<Wide> oracle(const std::string& text, bool sizes, Wide least, Wide most) {
    std::string digits = text;
    Wide unit = 1;
    const std::string small = "kmg", large = "KMG";
    if (sizes && !digits.empty()) {
        const size_t s = small.find(digits.back()), l = large.find(digits.back());
        for (size_t i = 0; s != std::string::npos && i <= s; ++i) unit *= 1000;
        for (size_t i = 0; l != std::string::npos && i <= l; ++i) unit *= 1024;
        if (unit != 1) digits.pop_back();
    }
    const bool negative = !digits.empty() && digits[0] == '-';
    if (negative) digits.erase(0, 1);
    if (digits.empty()) return std::nullopt;
    constexpr Wide kHuge = Wide{1} << 90;
    Wide value = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9') return std::nullopt;
        value = std::min(value * 10 + (c - '0'), kHuge);
    }
    value = (negative ? -value : value) * unit;
    return value < least || value > most ? std::nullopt : std::optional<Wide>(value);
}

// Strings that are numbers, or almost.
class Strings {
  public:
    std::string next() {
        static const std::vector<std::string> edges = {"9223372036854775807",
                                                       "9223372036854775808",
                                                       "-9223372036854775808",
                                                       "-9223372036854775809",
                                                       "18446744073709551615",
                                                       "18446744073709551616",
                                                       "9999999T",
                                                       "9007199254740993K",
                                                       "9223372036854775807k",
                                                       "-1",
                                                       "0x10",
                                                       "7 ",
                                                       " 7",
                                                       "+7",
                                                       "",
                                                       "-",
                                                       "--7",
                                                       "1e9",
                                                       "nan",
                                                       "007",
                                                       "1.0",
                                                       "7\n",
                                                       "K",
                                                       "٣"};
        static const std::string letters = "0123456789012345678901234567890123456789--kKmMgG xXeE.+\t";
        if (pick(20) == 0) return edges[pick(edges.size())];
        std::string s(pick(3) == 0 ? pick(24) : pick(6), ' ');
        for (char& c : s) c = pick(4) == 0 ? letters[pick(letters.size())] : static_cast<char>('0' + pick(10));
        if (pick(4) == 0 && !s.empty()) s.back() = letters[pick(letters.size())];
        if (pick(4) == 0 && !s.empty()) s.front() = '-';
        return s;
    }

  private:
    size_t pick(size_t n) { return static_cast<size_t>(random_() % n); }
    std::mt19937_64 random_{20261121};
};

template <class T>
void compare(std::optional<T> (*parse)(std::string_view), bool sizes) {
    Strings strings;
    int64_t legal = 0;
    for (int i = 0; i < 100'000; ++i) {
        const std::string text = strings.next();
        const std::optional<Wide> want =
            oracle(text, sizes, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
        // from_chars accepts no sign for an unsigned type, not even in -0.
        const bool unsigned_minus = std::is_unsigned_v<T> && !text.empty() && text[0] == '-';
        const std::optional<T> got = parse(text);
        ASSERT_EQ(got.has_value(), want.has_value() && !unsigned_minus) << "'" << text << "'";
        if (got) {
            ASSERT_TRUE(*got == static_cast<T>(*want)) << "'" << text << "'";
            ++legal;
        }
    }
    EXPECT_GT(legal, 10'000);  // both valid and invalid strings occur
}

TEST(ParseInteger, AgreesWithAnOracle) {
    compare<int64_t>(parse_integer, /*sizes=*/false);
}

TEST(ParseUnsigned, AgreesWithAnOracle) {
    compare<uint64_t>(parse_unsigned, /*sizes=*/false);
}

TEST(ParseSize, AgreesWithAnOracle) {
    compare<int64_t>(parse_size, /*sizes=*/true);
}

TEST(ParseSize, DistinguishesThousandsFromPowersOfTwo) {
    EXPECT_EQ(parse_size("128k"), 128000);
    EXPECT_EQ(parse_size("128K"), 131072);
    EXPECT_EQ(parse_size("131072"), 131072);
    EXPECT_EQ(parse_size("8G"), int64_t{8} << 30);
}

TEST(ParseReal, TakesDecimalNumbers) {
    EXPECT_EQ(parse_real("0.8"), 0.8);
    EXPECT_EQ(parse_real("-1.5e3"), -1500.0);
    EXPECT_EQ(parse_real("1e-46"), 1e-46);  // zero as a float, a valid temperature as a double
    EXPECT_EQ(parse_real("0"), 0.0);
    EXPECT_EQ(parse_real("5e-324"), 5e-324);
}

TEST(ParseReal, RefusesWhatIsNoFiniteNumber) {
    for (const char* text :
         {"",      "nan", "NaN", "-nan", "inf", "-inf",  "infinity", "1e400", "-1e400", "1e-400", "0x10",
          "0x1p3", "7 ",  " 7",  "+7",   "1,5", "1.5.5", "1e",       "e5",    "1d3",    "0.5f",   "--1"}) {
        EXPECT_FALSE(parse_real(text)) << "'" << text << "'";
    }
}

TEST(ParseReal, ReadsBackWhatIsPrinted) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const double x = std::bit_cast<double>(random());
        if (!std::isfinite(x)) continue;
        const std::optional<double> back = parse_real(fmt::format("{}", x));
        ASSERT_TRUE(back && *back == x) << x;
    }
}

TEST(ParseSwitch, KnowsFourWordsForEach) {
    for (const char* text : {"on", "true", "yes", "1"}) EXPECT_EQ(parse_switch(text), true);
    for (const char* text : {"off", "false", "no", "0"}) EXPECT_EQ(parse_switch(text), false);
    for (const char* text : {"", "On", "TRUE", "2", "-1", "on "}) EXPECT_FALSE(parse_switch(text)) << text;
}

template <class F>
std::string refusal(F read) {
    try {
        read();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kConfig);
        return e.what();
    }
    return "accepted";
}

TEST(Setting, NamesPlaceValueAndRange) {
    const auto top_k = [](const char* text) { return Setting{"--top-k", text}; };
    EXPECT_EQ(refusal([&] { top_k("-1").integer(0, 100); }), "--top-k '-1': want a whole number from 0 to 100");
    EXPECT_EQ(refusal([&] { top_k("101").integer(0, 100); }), "--top-k '101': want a whole number from 0 to 100");
    EXPECT_EQ(refusal([&] { top_k("nan").real(0, 1); }), "--top-k 'nan': want a number from 0 to 1");
    EXPECT_EQ(refusal([&] { top_k("0").real_above(0, 1); }), "--top-k '0': want a number above 0, at most 1");
    EXPECT_EQ(refusal([&] { top_k("x").one_of({"a", "b", "c"}); }), "--top-k 'x': want a, b or c");
    EXPECT_EQ(refusal([&] { top_k("").word(); }), "--top-k '': want something that is not empty");
    EXPECT_EQ(refusal([&] { top_k("-1").any_unsigned(); }),
              "--top-k '-1': want a whole number from 0 to 18446744073709551615");
    EXPECT_EQ(refusal([&] { top_k("9999999T").size(0, 10); }),
              "--top-k '9999999T': want a whole number from 0 to 10; k means 1000, K 1024");
}

TEST(Setting, TakesBothEndsOfARange) {
    EXPECT_EQ((Setting{"-c", "0"}.size(0, 4096)), 0);
    EXPECT_EQ((Setting{"-c", "4K"}.size(0, 4096)), 4096);
    EXPECT_EQ((Setting{"--top-p", "1"}.real_above(0, 1)), 1.0);
    EXPECT_EQ((Setting{"--seed", "18446744073709551615"}.any_unsigned()), UINT64_MAX);
}

}  // namespace
}  // namespace trireme
