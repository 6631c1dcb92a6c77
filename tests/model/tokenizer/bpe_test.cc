// BPE models, read from tokenizer.json files made by hand.

#include <gtest/gtest.h>

#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

TEST(Bpe, MergesByRank) {
    const auto tokenizer = load(json_tokenizer({"a", "b", "c", "bc", "ab", "abc"}, {"b c", "a b", "a bc"}));

    EXPECT_EQ(tokenizer->encode("abc", false), (Ids{5}));
    EXPECT_EQ(tokenizer->encode("abab", false), (Ids{4, 4}));
    EXPECT_EQ(tokenizer->encode("", false), Ids{});
}

TEST(Bpe, WithoutIgnoreMergesAWordIsBuiltByMerges) {
    Json json = json_tokenizer({"a", "b", "ab", "aab"}, {"a b"});
    EXPECT_EQ(load(json)->encode("aab", false), (Ids{0, 2}));
    json["model"]["ignore_merges"] = true;
    EXPECT_EQ(load(json)->encode("aab", false), (Ids{3}));
    EXPECT_EQ(load(json)->encode("aabab", false), (Ids{0, 2, 2}));
}

TEST(Bpe, LeavesOutWhatHasNoToken) {
    const auto tokenizer = load(json_tokenizer({"a", "b", "ab"}, {"a b"}));
    EXPECT_EQ(tokenizer->encode("axb", false), (Ids{2}));  // the reference merges across the gap
    EXPECT_FALSE(tokenizer->keeps_every_byte());
}

TEST(Bpe, UnknownTokensAreFusedWhereAsked) {
    Json json = json_tokenizer({"?", "a"}, {});
    json["model"]["unk_token"] = "?";
    EXPECT_EQ(load(json)->encode("xyaz\xFF", false), (Ids{0, 0, 1, 0, 0}));
    json["model"]["fuse_unk"] = true;
    EXPECT_EQ(load(json)->encode("xyaz\xFF", false), (Ids{0, 1, 0}));
}

TEST(Bpe, FallsBackToBytes) {
    std::vector<std::string> tokens = {"a"};
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(byte_piece(byte));
    Json json = json_tokenizer(tokens, {});
    json["model"]["byte_fallback"] = true;
    json["decoder"] = {{"type", "ByteFallback"}};
    const auto tokenizer = load(json);

    EXPECT_EQ(tokenizer->encode("a\u00E9", false), (Ids{0, 1 + 0xC3, 1 + 0xA9}));
    EXPECT_EQ(tokenizer->encode("\xFF"
                                "a",
                                false),
              (Ids{1 + 0xFF, 0}));
    EXPECT_EQ(tokenizer->decode(Ids{1 + 0xC3, 1 + 0xA9, 1 + 0xFF}), "\u00E9\xFF");
    EXPECT_TRUE(tokenizer->keeps_every_byte());
}

TEST(Bpe, AByteFallbackWithAHoleAppliesWhereItCan) {
    Json json = json_tokenizer({"?", byte_piece(0xC3), byte_piece(0xA9)}, {});
    json["model"]["unk_token"] = "?";
    json["model"]["byte_fallback"] = true;
    EXPECT_EQ(load(json)->encode("\u00E9\u00E8", false), (Ids{1, 2, 0}));
}

TEST(Bpe, ByteLevelWorksOnBytes) {
    const std::string e_acute = byte_letter(0xC3) + byte_letter(0xA9);
    const auto tokenizer = load(json_byte_level(
        {e_acute, byte_letter(' ') + "a"}, {byte_letter(0xC3) + " " + byte_letter(0xA9), byte_letter(' ') + " a"}));

    EXPECT_EQ(tokenizer->encode("\u00E9 a", false), (Ids{256, 257}));
    EXPECT_EQ(tokenizer->encode("\xC3\xFF", false), (Ids{0xC3, 0xFF}));
    EXPECT_EQ(tokenizer->piece(256), "\u00E9");
    EXPECT_EQ(tokenizer->piece(257), " a");
    EXPECT_EQ(tokenizer->piece(0xC3), "\xC3");
    EXPECT_TRUE(tokenizer->keeps_every_byte());
    EXPECT_EQ(tokenizer->left_out("a\xC0\xFF").bytes, 0);
}

TEST(Bpe, WhatBecomesTheUnknownTokenIsNotLeftOut) {
    Json json = json_byte_level({"?"}, {});
    json["model"]["vocab"].erase(byte_letter(0xC0));
    EXPECT_EQ(load(json)->left_out("a\xC0").bytes, 1);
    json["model"]["unk_token"] = "?";
    EXPECT_EQ(load(json)->left_out("a\xC0").bytes, 0);
}

// An added token is one id, whatever bytes its name has; a word that is a token needs no bytes.
TEST(Bpe, NothingIsLeftOutOfWhatATokenStandsFor) {
    Json json = json_byte_level({"||"}, {});
    json["model"]["vocab"].erase("|");
    json["added_tokens"].push_back(json_added(257, "<|end|>", {"special"}));
    json["model"]["ignore_merges"] = true;
    const auto tokenizer = load(json);
    EXPECT_EQ(tokenizer->left_out("a<|end|>||").bytes, 0);
    const LeftOut one = tokenizer->left_out("b<|end|>c|");
    EXPECT_EQ(one.bytes, 1);
    EXPECT_EQ(one.first, '|');
    EXPECT_EQ(one.offset, 9);
}

TEST(Bpe, LongTextIsTheSumOfItsParts) {
    std::vector<std::string> tokens = {"\u2581",
                                       "a",
                                       "b",
                                       "\u2581"
                                       "a",
                                       "ab",
                                       "\u2581"
                                       "ab"};
    Json json = json_tokenizer(tokens, {"\u2581 a", "a b", "\u2581 ab"});
    json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
    const auto tokenizer = load(json);
    std::string text;
    Ids ids;
    for (int i = 0; i < 5000; ++i) {
        text += i % 3 == 0 ? " ab" : " ba";
        const Ids part = tokenizer->encode(i % 3 == 0 ? " ab" : " ba", false);
        ids.insert(ids.end(), part.begin(), part.end());
    }
    EXPECT_EQ(tokenizer->encode(text, false), ids);
}

// Quadratic time would take hours; the test's own time limit is the assertion.
TEST(Bpe, AMegabyteOfOneLetterIsNoTrouble) {
    std::vector<std::string> tokens, merges;
    std::string run = "a";
    for (int i = 0; i < 6; ++i) {
        merges.push_back(run + " " + run);
        run += run;
        tokens.push_back(run);
    }
    const auto tokenizer = load(json_byte_level(tokens, merges));
    EXPECT_EQ(tokenizer->encode(std::string(1 << 20, 'a'), false), Ids(1 << 14, 261));
    EXPECT_EQ(tokenizer->encode(std::string(1 << 20, '\xFF'), false).size(), size_t{1} << 20);
}

}  // namespace
}  // namespace trireme::test
