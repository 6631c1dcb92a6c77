#pragma once
/// Properties of every tokenizer with every text, whatever file it came from.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::fuzz {

inline constexpr std::array<std::string_view, 4> kTexts = {"", " In the beginning  1234 don't <s>x</s>\r\n\n",
                                                           "\xFF\u00E9\u4F60\xE4\xBD\U0001F600 e\u0301\x01\x80",
                                                           "aaaaaaaabbbbbbbbaaaaaaaa        aaaaaaaa"};
constexpr size_t kInputBytes = 500;  // the bytes of an input that are also encoded as a text

/// Ids are inside the vocabulary. `keeps`: decoding gives the same text, unless it has U+2581, which stands for a
/// space.
inline void try_text(const Tokenizer& tokenizer, std::string_view text, bool keeps) {
    for (const bool add_special : {true, false}) {
        const std::vector<int32_t> ids = tokenizer.encode(text, add_special);
        for (const int32_t id : ids) expect(id >= 0 && id < tokenizer.vocab(), "an id outside the vocabulary");
        const std::string back = tokenizer.decode(ids);
        if (add_special || !keeps || text.find("\u2581") != text.npos) continue;
        expect(back == text, "a text that does not come back");
    }
}

/// Tries the texts above and the start of the input itself; then checks BOS and EOS.
inline void try_tokenizer(const Tokenizer& tokenizer, std::string_view input, bool keeps) {
    for (const std::string_view text : kTexts) try_text(tokenizer, text, keeps);
    try_text(tokenizer, input.substr(0, kInputBytes), keeps);
    expect(tokenizer.bos() < tokenizer.vocab() && tokenizer.eos() < tokenizer.vocab(), "a begin or end outside");
    for (const int32_t id : tokenizer.eos_ids()) expect(id >= 0 && id < tokenizer.vocab(), "an end outside");
}

}  // namespace trireme::fuzz
