#include "model/tokenizer/oniguruma.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "model/files/shown.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"

namespace trireme {
namespace {

// \w as a set: the property Alphabetic with marks, decimal digits and connectors. Outside of a class Oniguruma also
// includes some Latin-1 superscripts and fractions. Both were found by testing Oniguruma on each code point.
constexpr std::string_view kWordSet =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kLatinNumbers = R"(\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

constexpr std::array<std::string_view, 37> kCategories = {
    "C", "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No",
    "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "Any"};
constexpr std::array<std::string_view, 14> kScripts = {"Arabic",   "Armenian", "Bengali", "Cyrillic", "Devanagari",
                                                       "Greek",    "Han",      "Hangul",  "Hebrew",   "Hiragana",
                                                       "Katakana", "Latin",    "Tamil",   "Thai"};

bool is_one_of(std::string_view name, auto&& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

class Translator {
  public:
    Translator(std::string_view pattern, std::string_view what) : in_(pattern), what_(what) {}

    std::string run() {
        while (at_ < in_.size()) item();
        require(open_.empty(), Exit::kData, "{}: a regular expression lacks ')'", what_);
        return std::move(out_);
    }

  private:
    bool next_is(std::string_view text) const { return in_.substr(at_, text.size()) == text; }

    [[noreturn]] void refuse(std::string_view construct) const {
        fail(Exit::kData, "{}: '{}' at byte {} of a regular expression is not supported", what_, shown(construct), at_);
    }

    /// Translates one element of a sequence. atom_ is where the last quantifiable one starts in out_.
    void item() {
        const char c = in_[at_];
        if (c == '(') return open_group();
        if (c == ')') return close_group();
        if (c == '|') return separator("|");
        if (c == '*' || c == '+' || c == '?') return quantifier();
        if (c == '{' && interval()) return;
        if (c == '^' || c == '$') return separator(c == '^' ? "(?m:^)" : "(?m:$)");  // Oniguruma: always of a line
        atom_ = out_.size();
        has_atom_ = true;
        if (c == '[') return char_class();
        if (c == '\\') return escape(/*in_class=*/false);
        if (c == '.') return put(1, "[^\\n]");
        literal();
    }

    void put(size_t consumed, std::string_view text) {
        at_ += consumed;
        out_ += text;
    }
    void separator(std::string_view text) {
        put(1, text);
        has_atom_ = false;
    }

    void open_group() {
        static constexpr std::array<std::string_view, 8> kHeads = {
            "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
        std::string_view head = "(";
        if (next_is("(?")) {
            const auto* known = std::find_if(kHeads.begin(), kHeads.end(), [&](auto h) { return next_is(h); });
            if (known == kHeads.end()) refuse(in_.substr(at_, 4));
            head = *known;
        } else if (next_is("(*")) {
            refuse("(*");
        }
        open_.push_back(out_.size());
        put(head.size(), head == "(" ? "(?:" : head);
        has_atom_ = false;
    }

    void close_group() {
        if (open_.empty()) refuse(")");
        put(1, ")");
        atom_ = open_.back();
        has_atom_ = true;
        open_.pop_back();
    }

    void quantifier() {
        if (!has_atom_) refuse(in_.substr(at_, 1));
        put(1, in_.substr(at_, 1));
        if (at_ < in_.size() && (in_[at_] == '?' || in_[at_] == '+')) put(1, in_.substr(at_, 1));  // lazy, possessive
        again();
    }

    /// Translates {n}, {n,}, {n,m}, {,m}; false if the brace is a literal.
    bool interval() {
        size_t end = at_ + 1;
        const auto digits = [&] {
            const size_t begin = end;
            while (end < in_.size() && std::isdigit(static_cast<unsigned char>(in_[end])) != 0) ++end;
            return in_.substr(begin, end - begin);
        };
        const std::string_view low = digits();
        const bool comma = end < in_.size() && in_[end] == ',';
        if (comma) ++end;
        const std::string_view high = comma ? digits() : low;
        if (end >= in_.size() || in_[end] != '}' || (low.empty() && high.empty())) return false;
        if (!has_atom_ || low.size() > 4 || high.size() > 4) refuse(in_.substr(at_, end + 1 - at_));
        put(end + 1 - at_, fmt::format("{{{}{}{}}}", low.empty() ? "0" : low, comma ? "," : "", comma ? high : ""));
        if (next_is("?")) {
            if (!comma) refuse("{n}?");  // Oniguruma: optional; PCRE2: lazy
            put(1, "?");
        }
        again();
        return true;
    }

    /// A quantified element may be quantified again: {2}+ repeats the pair, it is not possessive.
    void again() {
        if (at_ < in_.size() && (in_[at_] == '*' || in_[at_] == '+' || in_[at_] == '?' || in_[at_] == '{')) {
            out_.insert(atom_, "(?:");
            out_ += ")";
        } else {
            has_atom_ = false;
        }
    }

    void char_class() {
        put(1, "[");
        if (next_is("^")) put(1, "^");
        if (next_is("]")) refuse("[]");
        while (!next_is("]")) {
            if (at_ >= in_.size()) refuse("[");
            if (in_[at_] == '[' || next_is("&&")) refuse(in_.substr(at_, 2));  // nested sets, intersections
            if (in_[at_] == '\\') {
                escape(/*in_class=*/true);
            } else if (in_[at_] == '^') {
                put(1, "\\^");
            } else {
                literal();
            }
        }
        put(1, "]");
    }

    void literal() {
        const size_t length = utf8_length(in_.substr(at_));
        if (length == 0) refuse("a byte that is not UTF-8");
        const bool brace = in_[at_] == '{' || in_[at_] == '}';
        put(length, fmt::format("{}{}", brace ? "\\" : "", in_.substr(at_, length)));
    }

    void escape(bool in_class) {
        const char c = at_ + 1 < in_.size() ? in_[at_ + 1] : '\0';
        const std::string_view both = in_.substr(at_, 2);
        if (c == 'p' || c == 'P') return property();
        if (c == 's' || c == 'S' || c == 'd' || c == 'D' || c == 'n' || c == 'r' || c == 't' || c == 'f')
            return put(2, both);
        if (c == 'v') return put(2, "\\x0B");  // Oniguruma: one character; PCRE2: a class
        if (c == 'w' && in_class) return put(2, kWordSet);
        if ((c == 'w' || c == 'W') && !in_class)
            return put(2, fmt::format("[{}{}{}]", c == 'w' ? "" : "^", kWordSet, kLatinNumbers));
        if (c == 'x' || c == 'u') return code_point(c);
        if (c > ' ' && c < 0x7F && std::isalnum(static_cast<unsigned char>(c)) == 0) return put(2, both);
        refuse(both);
    }

    /// \xHH (ASCII), \x{H...}, \uHHHH.
    void code_point(char kind) {
        const bool braced = kind == 'x' && next_is("\\x{");
        const size_t begin = at_ + (braced ? 3 : 2);
        const size_t end = braced ? std::min(in_.find('}', begin), in_.size()) : begin + (kind == 'x' ? 2 : 4);
        uint32_t value = 0;
        if (end <= begin || end > in_.size() || end - begin > 6) refuse(in_.substr(at_, 2));
        for (size_t i = begin; i < end; ++i) {
            const auto digit = static_cast<unsigned char>(in_[i]);
            if (std::isxdigit(digit) == 0) refuse(in_.substr(at_, 2));
            value =
                value * 16 + static_cast<uint32_t>(std::isdigit(digit) != 0 ? digit - '0' : (digit | 0x20) - 'a' + 10);
        }
        if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000) || (!braced && kind == 'x' && value > 0x7F))
            refuse(in_.substr(at_, 2));
        put(end + (braced ? 1 : 0) - at_, fmt::format("\\x{{{:X}}}", value));
    }

    void property() {
        const size_t close = in_.find('}', at_);
        if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == std::string_view::npos) refuse(in_.substr(at_, 3));
        const std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
        const char letter = in_[at_ + 1];
        if (is_one_of(name, kCategories)) {
            put(close + 1 - at_, fmt::format("\\{}{{{}}}", letter, name));
        } else if (is_one_of(name, kScripts)) {
            put(close + 1 - at_, fmt::format("\\{}{{sc:{}}}", letter, name));  // else PCRE2 adds Script_Extensions
        } else {
            refuse(in_.substr(at_, std::min<size_t>(close + 1 - at_, 40)));
        }
    }

    std::string_view in_, what_;
    size_t at_ = 0;
    std::string out_;
    std::vector<size_t> open_;  // where each open group starts in out_
    size_t atom_ = 0;
    bool has_atom_ = false;
};

}  // namespace

std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what) {
    return Translator(pattern, what).run();
}

}  // namespace trireme
