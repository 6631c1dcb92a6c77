#include "model/tokenizer/normalizer.h"

#include <cstdlib>
#include <memory>

#include <utf8proc.h>

#include "model/tokenizer/regex.h"
#include "model/tokenizer/unicode_shape.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"

namespace trireme {
namespace {

// NFKC makes at most 11 bytes of one; U+2581 is 3 bytes for a space. Without a limit, a file with some steps that each
// double the text would exhaust memory.
constexpr size_t kGrowth = 32;
constexpr size_t kGrowthBytes = 1024;  // for very short texts

void check_growth(size_t before, size_t after) {
    const size_t most = kGrowth * before + kGrowthBytes;
    require(after <= most, Exit::kData,
            "the tokenizer's normalizer or decoder makes {} bytes or more of {}, at most {} are allowed", after, before,
            most);
}

void append_mapped(std::string& out, std::string_view text, utf8proc_option_t options) {
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    require(size >= 0, Exit::kOs, "Unicode normalisation of {} bytes failed: {}", text.size(), utf8proc_errmsg(size));
    out.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(size));
}

/// Returns `text` without the white space at its left or right end.
std::string_view stripped(std::string_view text, bool left, bool right) {
    while (left && !text.empty()) {
        const size_t length = utf8_length(text);
        if (length == 0 || !is_white_space(utf8_code_point(text))) break;
        text.remove_prefix(length);
    }
    while (right && !text.empty()) {
        size_t length = 1;
        while (length < 4 && length < text.size() && utf8_length(text.substr(text.size() - length)) != length) ++length;
        const std::string_view last = text.substr(text.size() - length);
        if (utf8_length(last) != length || !is_white_space(utf8_code_point(last))) break;
        text.remove_suffix(length);
    }
    return text;
}

}  // namespace

Normalizer unicode_form(bool composed, bool compatibility) {
    const int form = composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form | (compatibility ? UTF8PROC_COMPAT : 0));
    return [options](const std::string& text) {
        std::string out;
        for_each_utf8_run(
            text, [&](std::string_view run) { append_mapped(out, run, options); }, [&](char byte) { out += byte; });
        return out;
    };
}

Normalizer prepend(std::string prefix) {
    return [prefix = std::move(prefix)](const std::string& text) { return text.empty() ? text : prefix + text; };
}

Normalizer replace_text(std::string from, std::string to) {
    return [from = std::move(from), to = std::move(to)](const std::string& text) {
        std::string out;
        size_t begin = 0;
        for (size_t at = 0; (at = text.find(from, begin)) != std::string::npos; begin = at + from.size()) {
            out.append(text, begin, at - begin).append(to);
            check_growth(text.size(), out.size());
        }
        return out.append(text, begin);
    };
}

Normalizer replace_matches(std::string_view pattern, std::string to, std::string_view what) {
    return [regex = std::make_shared<const Regex>(pattern, what), to = std::move(to)](const std::string& text) {
        std::string out;
        size_t begin = 0;
        for (const Span match : regex->find_all(unicode_shape(text))) {
            out.append(text, begin, match.begin - begin).append(to);
            check_growth(text.size(), out.size());
            begin = match.end;
        }
        return out.append(text, begin);
    };
}

Normalizer strip(bool left, bool right) {
    return [left, right](const std::string& text) { return std::string(stripped(text, left, right)); };
}

std::string normalized(const std::vector<Normalizer>& steps, std::string text) {
    const size_t before = text.size();
    for (const Normalizer& step : steps) {
        text = step(std::move(text));
        check_growth(before, text.size());
    }
    return text;
}

}  // namespace trireme
