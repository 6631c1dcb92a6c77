#include "model/tokenizer/gguf_tokenizer.h"

#include <limits>

#include <gtest/gtest.h>

#include "tests/model/files/support.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

void expect_refused(const GgufTokenizer& gguf, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.emplace_back("x.gguf");
    expect_error([&] { make_tokenizer(gguf); }, Exit::kData, all);
}

const std::string kSpace = byte_letter(' ');

TEST(GgufByteLevel, CutsDigitsByItsPre) {
    const std::vector<std::string> tokens = {"12", "123", kSpace + "1", "1234"};
    const std::vector<std::string> merges = {"1 2", "12 3", kSpace + " 1", "123 4"};
    const auto encode = [&](const std::string& pre, std::string_view text) {
        return make_tokenizer(gguf_byte_level(pre, tokens, merges))->encode(text, false);
    };

    EXPECT_EQ(encode("gpt-2", "1234"), Ids{259});
    EXPECT_EQ(encode("smollm", "1234"), (Ids{'1', '2', '3', '4'}));
    EXPECT_EQ(encode("llama-bpe", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(encode("llama3", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(encode("default", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(encode("", "1234"), (Ids{257, '4'}));
    EXPECT_EQ(encode("gpt-2", " 1"), Ids{258});
    EXPECT_EQ(encode("smollm", " 1"), (Ids{' ', '1'}));
}

TEST(GgufByteLevel, BytesWithoutATokenAreLeftOutButKeepTheirNeighboursApart) {
    GgufTokenizer gguf = gguf_byte_level("gpt-2", {"ab"}, {"a b"});
    gguf.tokens[4] = "<unused>";
    const auto tokenizer = make_tokenizer(gguf);

    EXPECT_EQ(tokenizer->encode("ab", false), Ids{256});
    EXPECT_EQ(tokenizer->encode("!\x04!", false), (Ids{'!', '!'}));
    EXPECT_EQ(tokenizer->encode("\x04", false), Ids{});
    EXPECT_FALSE(tokenizer->keeps_every_byte());
    EXPECT_EQ(tokenizer->piece(4), "<unused>");

    const LeftOut some = tokenizer->left_out("ab!\x04!\x04");
    EXPECT_EQ(some.bytes, 2);
    EXPECT_EQ(some.first, 4);
    EXPECT_EQ(some.offset, 3);
    EXPECT_EQ(tokenizer->left_out("ab\x05\xFF").bytes, 0);
    EXPECT_EQ(tokenizer->left_out("").bytes, 0);
}

TEST(GgufByteLevel, SpecialTokensBeginAndEnd) {
    GgufTokenizer gguf = gguf_byte_level("llama-bpe", {}, {});
    const auto bos = static_cast<int32_t>(gguf.bos);
    auto tokenizer = make_tokenizer(gguf);
    EXPECT_EQ(tokenizer->encode("a</s>", true), (Ids{bos, 'a', bos}));  // Llama 3 begins with BOS by default
    EXPECT_EQ(tokenizer->bos(), bos);
    EXPECT_EQ(tokenizer->eos_ids(), Ids{bos});
    EXPECT_TRUE(tokenizer->is_special(bos));

    gguf.add_bos = false;
    gguf.add_eos = true;
    EXPECT_EQ(make_tokenizer(gguf)->encode("a", true), (Ids{'a', bos}));
    gguf.pre = "gpt-2";
    gguf.add_bos = std::nullopt;
    gguf.add_eos = std::nullopt;
    EXPECT_EQ(make_tokenizer(gguf)->encode("a", true), Ids{'a'});
}

TEST(GgufByteLevel, KnowsOtherEndsByTheirNames) {
    GgufTokenizer gguf = gguf_byte_level("smollm", {"<|endoftext|>", "<|eot_id|>", "<y>"}, {});
    gguf.token_types[256] = 3;
    gguf.eot = 258;
    EXPECT_EQ(make_tokenizer(gguf)->eos_ids(), (Ids{256, 258, 259}));  // the second one is no control token
}

TEST(GgufByteLevel, AControlTokenIsFoundByItsLettersNotByTheirBytes) {
    GgufTokenizer gguf = gguf_byte_level("llama3", {kSpace + "a"}, {});
    EXPECT_EQ(make_tokenizer(gguf)->encode(" a", false), Ids{256});
    gguf.token_types[256] = 3;
    const auto tokenizer = make_tokenizer(gguf);
    EXPECT_EQ(tokenizer->encode(" a", false), (Ids{' ', 'a'}));
    EXPECT_EQ(tokenizer->encode(kSpace + "a", false), Ids{256});
    EXPECT_EQ(tokenizer->piece(256), kSpace + "a");

    gguf.merges = {kSpace + " a"};
    expect_refused(gguf, {"merge 0", "are no bytes"});
}

TEST(GgufByteLevel, RefusesBadMetadata) {
    const GgufTokenizer good = gguf_byte_level("gpt-2", {"ab"}, {"a b"});
    GgufTokenizer bad = good;
    bad.model = "bert";
    expect_refused(bad, {"tokenizer.ggml.model 'bert'", "llama, gpt2"});
    bad = good;
    bad.pre = "novel";
    expect_refused(bad, {"tokenizer.ggml.pre 'novel'", "gpt-2, smollm, qwen2"});
    bad = good;
    bad.tokens.clear();
    expect_refused(bad, {"0 tokens"});
    bad = good;
    bad.token_types.pop_back();
    expect_refused(bad, {"257 token types for 258 tokens"});
    bad = good;
    bad.scores.resize(3);
    expect_refused(bad, {"3 token scores for 258 tokens"});
    bad = good;
    bad.token_types[7] = 9;
    expect_refused(bad, {"token 7 has the type 9"});
    bad = good;
    bad.tokens[256] = "a";
    expect_refused(bad, {"token 256 'a' is there twice"});
    bad = good;
    bad.tokens[256] = std::string(1 << 20, 'x');
    expect_refused(bad, {"token 256 has 1048576 bytes"});
    for (const int64_t id : {int64_t{-2}, int64_t{258}, std::numeric_limits<int64_t>::min(), int64_t{1} << 32}) {
        GgufTokenizer odd = good;
        odd.bos = odd.eos = odd.eot = id;  // as if they were absent
        EXPECT_EQ(make_tokenizer(odd)->bos(), -1);
        EXPECT_TRUE(make_tokenizer(odd)->eos_ids().empty());
    }
}

TEST(GgufByteLevel, RefusesBadMerges) {
    const auto refuse = [](const std::string& merge, const std::string& part) {
        expect_refused(gguf_byte_level("gpt-2", {"ab"}, {"a b", merge}), {"merge 1", part});
    };
    refuse("", "expected two tokens");
    refuse("ab", "expected two tokens");
    refuse("a zz", "'zz', ");
    refuse("b a", "'ba', ");
    refuse(" a", "expected two tokens");
}

TEST(GgufSpm, PutsASpaceBeforeAndAfterSpecialTokens) {
    GgufTokenizer gguf =
        gguf_spm({"\u2581"
                  "a",
                  "a"});
    auto tokenizer = make_tokenizer(gguf);

    EXPECT_EQ(tokenizer->encode("a<s>a", false), (Ids{260, 1, 260}));
    EXPECT_EQ(tokenizer->decode(Ids{260, 1, 260}), "a<s>a");
    EXPECT_EQ(tokenizer->encode(" a", false), (Ids{259, 260}));
    EXPECT_EQ(tokenizer->encode("a", true), (Ids{1, 260}));
    EXPECT_EQ(tokenizer->encode("", true), Ids{1});

    gguf.add_space_prefix = false;
    gguf.add_bos = false;
    gguf.add_eos = true;
    tokenizer = make_tokenizer(gguf);
    EXPECT_EQ(tokenizer->encode("a a", true), (Ids{261, 260, 2}));
    EXPECT_EQ(tokenizer->decode(Ids{260}), " a");
}

TEST(GgufSpm, RefusesBadMetadata) {
    const GgufTokenizer good = gguf_spm({"a"});
    GgufTokenizer bad = good;
    bad.scores.clear();
    expect_refused(bad, {"scores is missing"});
    bad = good;
    bad.scores[260] = std::numeric_limits<float>::quiet_NaN();
    expect_refused(bad, {"score of piece 260 'a' is nan"});
    bad = good;
    bad.tokens[3] = "<0x-1>";
    expect_refused(bad, {"byte piece 3 is '<0x-1>'"});
    bad = good;
    bad.token_types[3] = 1;
    expect_refused(bad, {"255 of 256 byte pieces"});
    bad = good;
    bad.tokens[259] = "x";
    expect_refused(bad, {"U+2581"});
    bad = good;
    bad.token_types[259] = 3;
    expect_refused(bad, {"U+2581"});
    bad = good;
    bad.tokens[260] = "<s>";
    expect_refused(bad, {"piece 260 '<s>' is there twice"});
    bad = good;
    bad.tokens[260] = "\xFF";
    expect_refused(bad, {"piece 260", "not UTF-8"});
    bad = good;
    bad.precompiled_charsmap = {1};
    expect_refused(bad, {"normalises its text"});
    bad = good;
    bad.remove_extra_whitespaces = true;
    expect_refused(bad, {"normalises its text"});
    bad = good;
    bad.token_types.clear();
    expect_refused(bad, {"0 of 256 byte pieces"});
}

}  // namespace
}  // namespace trireme::test
