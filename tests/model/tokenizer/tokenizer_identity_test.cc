#include "model/tokenizer/tokenizer_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

TokenizerIdentity of(const GgufTokenizer& gguf) {
    return TokenizerIdentity::of(*make_tokenizer(gguf));
}

GgufTokenizer made() {
    return gguf_byte_level("gpt-2", {"ab", "abc", "12"}, {"1 2", "a b", "ab c"});
}

/// The reported difference of a tokenizer that `change` has changed.
template <class F>
std::string difference(F change) {
    GgufTokenizer gguf = made();
    change(gguf);
    return of(made()).difference(of(gguf));
}

TEST(TokenizerIdentity, SaysWhatIsAnother) {
    EXPECT_EQ(of(made()).difference(of(made())), "");
    EXPECT_EQ(difference([](GgufTokenizer& g) {
                  g.tokens.emplace_back("new");
                  g.token_types.push_back(1);
              }),
              "its vocabulary has 260 tokens, not 261");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.tokens[4] = "<unused>"; }), "the texts of its tokens are others");
    EXPECT_EQ(difference([](GgufTokenizer& g) { std::swap(g.tokens[3], g.tokens[4]); }),
              "the texts of its tokens are others");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.token_types[257] = 3; }), "other tokens are control tokens");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.bos = 1; }), "its BOS is 259, not 1");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.eos = 2; }), "its EOS is 259, not 2");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.eot = 7; }), "texts end with [259], not [7, 259]");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.add_bos = true; }), "special tokens around a text are [], not [259]");
    // Differences that only the ids of texts show: a pre-tokenizer, the order of merges, a merge.
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.pre = "smollm"; }), "its rules cut texts in another way");
    EXPECT_EQ(difference([](GgufTokenizer& g) { g.merges.pop_back(); }), "its rules cut texts in another way");
}

TEST(TokenizerIdentity, ComesBackFromJson) {
    const TokenizerIdentity is = of(made());
    const Json json = is.to_json();
    EXPECT_EQ(TokenizerIdentity::from_json(json, "x.h5").to_json(), json);
    EXPECT_EQ(is.difference(TokenizerIdentity::from_json(json, "x.h5")), "");

    const auto refused = [&](const char* key, const Json& value) {
        Json other = json;
        other[key] = value;
        expect_error([&] { TokenizerIdentity::from_json(other, "x.h5"); }, Exit::kData,
                     {"x.h5", key[0] == 'v' ? "vocab" : key});
        other.erase(key);
        expect_error([&] { TokenizerIdentity::from_json(other, "x.h5"); }, Exit::kData, {"x.h5", key});
    };
    for (const Json& value : {Json(0), Json(-1), Json("many"), Json(int64_t{1} << 40), Json(1.5)})
        refused("vocab", value);
    for (const char* key : {"pieces", "special", "probe"}) {
        for (const Json& value : {Json(1), Json(""), Json("0123456789abcdeg"), Json("0123456789ABCDEF")})
            refused(key, value);
    }
    for (const char* key : {"bos", "eos"}) {
        for (const Json& value : {Json(-2), Json(260), Json(UINT64_MAX), Json(1.0), Json("<s>")}) refused(key, value);
    }
    for (const char* key : {"ends", "around"}) {
        for (const Json& value : {Json(3), Json({1, -1}), Json({260}), Json({"x"}), Json(std::vector<int>(65, 1))}) {
            refused(key, value);
        }
    }
    expect_error([&] { TokenizerIdentity::from_json(Json::array(), "x.h5"); }, Exit::kData, {"not a JSON object"});
}

// Tokenizers of known families, and one model's in two formats.
TEST(TokenizerIdentity, DistinguishesFamilies) {
    const std::filesystem::path data = std::filesystem::path(TRIREME_TEST_DATA) / "tokenizers";
    std::vector<TokenizerIdentity> all;
    for (const char* name :
         {"llama3", "gpt2", "gpt2-prefix-space", "smollm", "llama2", "llama2-metaspace", "sentencepiece"}) {
        all.push_back(TokenizerIdentity::of(*load_tokenizer(data / name)));
        EXPECT_EQ(all.back().difference(TokenizerIdentity::of(*load_tokenizer(data / name))), "") << name;
    }
    for (size_t i = 0; i < all.size(); ++i) {
        for (size_t j = 0; j < i; ++j) EXPECT_NE(all[i].difference(all[j]), "") << i << " " << j;
    }
}

}  // namespace
}  // namespace trireme::test
