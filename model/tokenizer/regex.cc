#include "model/tokenizer/regex.h"

#include <algorithm>
#include <string>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "model/tokenizer/oniguruma.h"
#include "model/tokenizer/unicode_shape.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kPatternBytes = size_t{64} << 10;
constexpr size_t kJitStackBytes = size_t{8} << 20;  // an upper limit; pages are used when needed

PCRE2_SPTR units(std::string_view text) {
    return reinterpret_cast<PCRE2_SPTR>(text.data());
}

std::string message_of(int error) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(error, text, sizeof(text));
    return reinterpret_cast<const char*>(text);
}

pcre2_code* compile(std::string_view pattern, std::string_view what) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code =
        pcre2_compile(units(pattern), pattern.size(), PCRE2_UTF | PCRE2_UCP, &error, &offset, /*context=*/nullptr);
    require(code != nullptr, Exit::kData, "{}: a regular expression is wrong at byte {}: {}", what, offset,
            message_of(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without JIT, the interpreter matches the same
    return code;
}

/// The state of one search.
class Search {
  public:
    Search(const pcre2_code* code, std::string_view shape)
        : code_(code),
          shape_(shape),
          data_(pcre2_match_data_create(1, nullptr)),
          context_(pcre2_match_context_create(nullptr)) {
        require(data_ != nullptr && context_ != nullptr, Exit::kOs, "out of memory while matching {} bytes",
                shape.size());
        // A sound pattern passes over a run of white space a few times, far below this limit; one that backtracks
        // exponentially is stopped within seconds.
        const size_t steps = 1'000'000 + 64 * shape.size();
        pcre2_set_match_limit(context_, static_cast<uint32_t>(std::min<size_t>(steps, 0xFFFFFFFFu)));
    }
    ~Search() {
        pcre2_jit_stack_free(stack_);
        pcre2_match_context_free(context_);
        pcre2_match_data_free(data_);
    }
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    /// The first match at or after `from`.
    bool next(size_t from, Span& match) {
        int found = match_at(from);
        if (found == PCRE2_ERROR_JIT_STACKLIMIT && stack_ == nullptr) {  // the thread's own 32 KiB were not enough
            stack_ = pcre2_jit_stack_create(size_t{64} << 10, kJitStackBytes, nullptr);
            pcre2_jit_stack_assign(context_, nullptr, stack_);
            found = match_at(from);
        }
        if (found == PCRE2_ERROR_NOMATCH) return false;
        require(found >= 0, Exit::kData, "a regular expression of the tokenizer failed on {} bytes of text: {}",
                shape_.size(), message_of(found));
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data_);
        match = {ends[0], ends[1]};
        return true;
    }

  private:
    int match_at(size_t from) {
        return pcre2_match(code_, units(shape_), shape_.size(), from, PCRE2_NO_UTF_CHECK, data_, context_);
    }

    const pcre2_code* code_;
    std::string_view shape_;
    pcre2_match_data* data_;
    pcre2_match_context* context_;
    pcre2_jit_stack* stack_ = nullptr;
};

}  // namespace

void Regex::Free::operator()(void* code) const {
    pcre2_code_free(static_cast<pcre2_code*>(code));
}

Regex::Regex(std::string_view pattern, std::string_view what) {
    require(pattern.size() <= kPatternBytes, Exit::kData, "{}: a regular expression of {} bytes, at most {} are read",
            what, pattern.size(), kPatternBytes);
    code_.reset(compile(pcre2_from_oniguruma(pattern, what), what));
}

std::vector<Span> Regex::find_all(std::string_view shape) const {
    std::vector<Span> matches;
    Search search(static_cast<const pcre2_code*>(code_.get()), shape);
    size_t from = 0;
    for (Span match; from <= shape.size() && search.next(from, match);) {
        if (match.begin == match.end && !matches.empty() && matches.back().end == match.end) {
            from = match.end + std::max<size_t>(1, utf8_length(shape.substr(match.end)));
            continue;
        }
        matches.push_back(match);
        from = match.end;
    }
    return matches;
}

bool is_word_character(std::string_view character) {
    static const Regex word(R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
                            R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}])",
                            "the definition of a word");
    return !character.empty() && !word.find_all(unicode_shape(character)).empty();
}

}  // namespace trireme
