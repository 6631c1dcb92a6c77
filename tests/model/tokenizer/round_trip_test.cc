// decode(encode(x)) == x, for random bytes.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/stream_decoder.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

struct Named {
    std::string name;
    std::unique_ptr<Tokenizer> tokenizer;
};

/// All tokenizers that keep every byte string (except U+2581, which SentencePiece writes for a space).
const std::vector<Named>& tokenizers() {
    static const std::vector<Named> all = [] {
        const std::filesystem::path data = std::filesystem::path(TRIREME_TEST_DATA) / "tokenizers";
        std::vector<Named> made;
        for (const char* name : {"llama3", "gpt2", "smollm", "llama2", "sentencepiece"})
            made.push_back({name, load_tokenizer(data / name)});
        for (const char* name : {"gguf-llama-bpe", "gguf-gpt-2", "gguf-smollm", "gguf-spm"})
            made.push_back({name, load_tokenizer(data / name / "tokenizer.gguf")});
        SpmModel unigram = spm_model({"a", "b", "ab",
                                      "\u2581"
                                      "a",
                                      "\u2581\u2581"});
        unigram.model_type = SpmModel::kUnigram;
        made.push_back({"unigram", tokenizer_from_spm(serialize(unigram), "x.model", {})});
        return made;
    }();
    return all;
}

void expect_back(const std::string& text) {
    if (text.find("\u2581") != std::string::npos || text.find("<0x") != std::string::npos) return;
    for (const auto& [name, tokenizer] : tokenizers()) {
        const Ids ids = tokenizer->encode(text, false);
        RC_ASSERT_FALSE(
            std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return id < 0 || id >= tokenizer->vocab(); }));
        RC_LOG() << name;
        RC_ASSERT(tokenizer->decode(ids) == text);
        StreamDecoder decoder(*tokenizer);
        std::string pieces, streamed;
        for (const int32_t id : ids) {
            pieces += tokenizer->piece(id);
            streamed += decoder.push(id);
        }
        RC_ASSERT(streamed + decoder.flush() == pieces);
    }
}

RC_GTEST_PROP(RoundTrip, KeepsArbitraryBytes, (const std::vector<uint8_t>& bytes)) {
    expect_back(std::string(bytes.begin(), bytes.end()));
}

RC_GTEST_PROP(RoundTrip, KeepsMixturesOfTextAndDamage, ()) {
    const auto fragment = rc::gen::element<std::string>(
        "the ", " LORD", "  ", " ", "\n", "\r\n", "1234", "'s", "<s>", "</s>", "<|im_end|>", "<|end_of_text|>", "<unk>",
        "<", "\u00E9", "e\u0301", "\u4F60\u597D", "\U0001F600", "\xE4\xBD", "\xF0\x9F", "\x80", "\xFF",
        std::string(1, '\0'), "\u180E", "\U00031350", "\u0085", "\u00B2", "\t", "aaaa", "!?", "'", "_");
    std::string text;
    for (const std::string& part : *rc::gen::container<std::vector<std::string>>(fragment)) text += part;
    expect_back(text);
}

TEST(RoundTrip, KeepsEveryStringOfUpToTwoBytes) {
    for (const auto& [name, tokenizer] : tokenizers()) {
        for (int code = 0; code < 0x10100; ++code) {
            const std::string text = code < 0x100 ? std::string(1, static_cast<char>(code))
                                                  : std::string{static_cast<char>(code >> 8), static_cast<char>(code)};
            ASSERT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text) << name << " " << code;
        }
    }
}

}  // namespace
}  // namespace trireme::test
