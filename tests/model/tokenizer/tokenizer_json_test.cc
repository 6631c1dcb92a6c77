#include "model/tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

TEST(TokenizerJson, ReadsMergesOfBothSpellings) {
    Json json = small_json_tokenizer();
    EXPECT_EQ(load(json)->encode("ab", false), Ids{3});
    json["model"]["merges"] = Json::array({Json::array({"a", "b"})});
    EXPECT_EQ(load(json)->encode("ab", false), Ids{3});
    json["model"].erase("type");  // files of 2020
    EXPECT_EQ(load(json)->encode("ab", false), Ids{3});
}

TEST(TokenizerJson, APairListedTwiceKeepsItsLastRank) {
    const auto tokenizer = load(json_tokenizer({"a", "b", "c", "ab", "bc"}, {"a b", "b c", "a b"}));
    EXPECT_EQ(tokenizer->encode("abc", false), (Ids{0, 4}));
}

TEST(TokenizerJson, AddedTokensAreParsedAndMayExtendTheVocabulary) {
    Json json = small_json_tokenizer();
    json["added_tokens"] = {json_added(4, "<s>", {"special"}), json_added(9, "[x]"),
                            json_added(0, "a", {"single_word"})};
    const auto tokenizer = load(json);

    EXPECT_EQ(tokenizer->encode("ab<s>b[x]", false), (Ids{3, 4, 1, 9}));
    EXPECT_EQ(tokenizer->encode("b a b", false), (Ids{1, 0, 1}));
    EXPECT_EQ(tokenizer->vocab(), 10);
    EXPECT_EQ(tokenizer->piece(9), "[x]");
    EXPECT_EQ(tokenizer->piece(7), "");    // a hole
    EXPECT_EQ(tokenizer->piece(100), "");  // a padded row
    EXPECT_TRUE(tokenizer->is_special(4));
    EXPECT_FALSE(tokenizer->is_special(9));
    EXPECT_FALSE(tokenizer->is_special(7));
    EXPECT_FALSE(tokenizer->is_special(-1));
    EXPECT_FALSE(tokenizer->is_special(100));
    expect_error([&] { tokenizer->piece(-1); }, Exit::kData, {"-1"});
}

TEST(TokenizerJson, NormalizedTokensAreFoundInNormalizedText) {
    Json json = small_json_tokenizer();
    json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "x"}}}, {"content", "a"}};
    Json token = json_added(5, "xx");
    token["normalized"] = true;
    json["added_tokens"] = Json::array({token});
    const auto tokenizer = load(json);

    EXPECT_EQ(tokenizer->encode("bxxb", false), (Ids{1, 5, 1}));
    EXPECT_EQ(tokenizer->encode("baab", false), (Ids{1, 5, 1}));
    EXPECT_EQ(tokenizer->encode("xb", false), Ids{3});
}

TEST(TokenizerJson, Llama2PutsASpaceBeforeEveryText) {
    Json json = json_tokenizer({"<s>", "\u2581", "a",
                                "\u2581"
                                "a"},
                               {"\u2581 a"});
    json["added_tokens"] = Json::array({json_added(0, "<s>", {"special"})});
    json["normalizer"] = {{"type", "Sequence"},
                          {"normalizers",
                           {{{"type", "Prepend"}, {"prepend", "\u2581"}},
                            {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}};
    json["decoder"] = {{"type", "Sequence"},
                       {"decoders",
                        {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                         {{"type", "ByteFallback"}},
                         {{"type", "Fuse"}},
                         {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
    const auto tokenizer = load(json);

    EXPECT_EQ(tokenizer->encode("a a<s>a", false), (Ids{3, 3, 0, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{3, 3, 0, 3}), "a a<s>a");
    EXPECT_EQ(tokenizer->encode(" a", false), (Ids{1, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{1, 3}), " a");
    EXPECT_EQ(tokenizer->piece(3), " a");
}

TEST(TokenizerJson, MetaspacePutsASpaceBeforeTheFirstWord) {
    Json json = json_tokenizer({"<s>", "\u2581", "a",
                                "\u2581"
                                "a"},
                               {"\u2581 a"});
    json["added_tokens"] = Json::array({json_added(0, "<s>", {"special"})});
    json["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
    json["decoder"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
    const auto tokenizer = load(json);

    EXPECT_EQ(tokenizer->encode("a a<s>a", false), (Ids{3, 3, 0, 2}));
    EXPECT_EQ(tokenizer->decode(Ids{3, 3, 0, 2}), "a a<s>a");
    EXPECT_EQ(tokenizer->encode("<s>a", false), (Ids{0, 2}));
    EXPECT_EQ(tokenizer->encode("<s> a", false), (Ids{0, 3}));
    EXPECT_EQ(tokenizer->decode(Ids{0, 3}), "<s> a");
}

TEST(TokenizerJson, TheTemplateSaysWhatStandsAroundAText) {
    Json json = small_json_tokenizer();
    json["added_tokens"] = Json::array({json_added(4, "<s>", {"special"})});
    const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const Json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
    const Json ids = {{"<s>", {{"id", "<s>"}, {"ids", Json::array({4})}, {"tokens", {"<s>"}}}}};
    json["post_processor"] = {
        {"type", "Sequence"},
        {"processors",
         {{{"type", "ByteLevel"}},
          {{"type", "TemplateProcessing"}, {"single", {begin, text, begin}}, {"special_tokens", ids}}}}};
    EXPECT_EQ(load(json)->encode("a", true), (Ids{4, 0, 4}));
    EXPECT_EQ(load(json)->encode("a", false), Ids{0});
    EXPECT_EQ(load(json)->encode("", true), (Ids{4, 4}));

    Json& post = json["post_processor"]["processors"][1];
    post["single"] = Json::array({begin});
    expect_json_refused(json, {"post_processor", "leaves out"});
    post["single"] = {text, text};
    expect_json_refused(json, {"post_processor", "more than once"});
    post["single"] = {begin, text};
    post["special_tokens"]["<s>"]["ids"] = Json::array({77});
    expect_json_refused(json, {"post_processor", "<s>", "vocabulary of 5"});
    post["special_tokens"] = Json::object();
    expect_json_refused(json, {"special_tokens", "'<s>' is missing"});

    // A name that the file defines: it may contain any bytes, and a prefix of it is another name.
    post["single"][0]["SpecialToken"]["id"] = "<s\x7f\n>";
    expect_json_refused(json, {"special_tokens", R"('<s\x7f\x0a>' is missing)"});
    post["special_tokens"] = ids;
    post["single"][0]["SpecialToken"]["id"] = std::string("<s>\0", 4);
    expect_json_refused(json, {"special_tokens", R"('<s>\x00' is missing)"});
}

TEST(TokenizerJson, HolesInTheVocabularyAreAllowed) {
    Json json = small_json_tokenizer();
    json["model"]["vocab"]["far"] = (1 << 21) - 1;
    const auto tokenizer = load(json);
    EXPECT_EQ(tokenizer->vocab(), 1 << 21);
    EXPECT_EQ(tokenizer->piece(1 << 20), "");
    EXPECT_EQ(tokenizer->piece((1 << 21) - 1), "far");
}

TEST(TokenizerJson, ItsTemplateWinsOverFlagsOfTheFolder) {
    Json json = small_json_tokenizer();
    json["added_tokens"] = {json_added(4, "<s>", {"special"}), json_added(5, "</s>", {"special"})};
    const std::optional<bool> any[] = {std::nullopt, false, true};
    const auto expect_ids = [&](const Ids& ids) {
        for (const std::optional<bool> bos : any) {
            for (const std::optional<bool> eos : any) {
                SpecialFiles files;
                files.bos = "<s>";
                files.eos = "</s>";
                files.add_bos = bos;
                files.add_eos = eos;
                EXPECT_EQ(tokenizer_from_json(json.dump(), "x.json", files)->encode("a", true), ids);
            }
        }
    };
    expect_ids({0});  // no template: nothing is put around a text
    json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}})");
    expect_ids({4, 0});
}

TEST(TokenizerJson, SpecialFilesNameBeginAndEnd) {
    Json json = small_json_tokenizer();
    json["added_tokens"] = {json_added(4, "<s>", {"special"}), json_added(5, "</s>", {"special"})};
    SpecialFiles files;
    files.what = "folder";
    files.bos = "<s>";
    files.eos = "</s>";
    files.eos_ids = {4, 5};
    const auto tokenizer = tokenizer_from_json(json.dump(), "x.json", files);

    EXPECT_EQ(tokenizer->bos(), 4);
    EXPECT_EQ(tokenizer->eos(), 5);
    EXPECT_EQ(tokenizer->eos_ids(), (Ids{4, 5}));

    const auto refuse = [&](const std::string& part) {
        expect_error([&] { tokenizer_from_json(json.dump(), "x.json", files); }, Exit::kData, {"folder", part});
    };
    files.eos = "nowhere";
    refuse("eos_token 'nowhere'");
    files.eos = std::nullopt;
    files.eos_ids = {6, 3, -3};
    EXPECT_EQ(tokenizer_from_json(json.dump(), "x.json", files)->eos_ids(), Ids{3});
}

}  // namespace
}  // namespace trireme::test
