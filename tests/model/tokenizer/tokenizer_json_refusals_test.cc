#include <map>

#include <gtest/gtest.h>

#include "model/tokenizer/tokenizer_json.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

TEST(TokenizerJson, NamesTheComponentItDoesNotKnow) {
    for (const char* where : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
        Json json = small_json_tokenizer();
        json[where] = {{"type", "Novel"}};
        expect_json_refused(json, {where, "'Novel' is not supported"});
        json[where] = {{"kind", 1}};
        expect_json_refused(json, {where, "'type' is missing"});
        json[where] = 3;
        expect_json_refused(json, {where, "expected an object"});
    }
    for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
        Json json = small_json_tokenizer();
        json["model"]["type"] = type;
        expect_json_refused(json, {"model", type, "BPE is"});
    }
    for (const auto& [field, value] : std::map<std::string, Json>{{"dropout", 0.1},
                                                                  {"continuing_subword_prefix", "##"},
                                                                  {"end_of_word_suffix", "</w>"},
                                                                  {"unk_token", "nowhere"},
                                                                  {"byte_fallback", "yes"},
                                                                  {"vocab", Json::array()},
                                                                  {"merges", "a b"}}) {
        Json json = small_json_tokenizer();
        json["model"][field] = value;
        expect_json_refused(json, {"model", field});
    }
}

TEST(TokenizerJson, RefusesBadRules) {
    const auto refuse_pre = [](const Json& step, const std::string& part) {
        Json json = small_json_tokenizer();
        json["pre_tokenizer"] = step;
        expect_json_refused(json, {"pre_tokenizer", part});
    };
    refuse_pre({{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}}, "lacks ')'");
    refuse_pre({{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Sometimes"}}, "'Sometimes'");
    refuse_pre({{"type", "Split"}, {"pattern", {{"String", ""}}}, {"behavior", "Isolated"}}, "empty");
    refuse_pre({{"type", "Split"}, {"behavior", "Isolated"}}, "'pattern' is missing");
    refuse_pre({{"type", "Metaspace"}, {"replacement", ""}}, "one character");
    refuse_pre({{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "late"}}, "'late'");
    refuse_pre(
        {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}},
        "contradict");
    refuse_pre({{"type", "Sequence"}, {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}},
               "the last one");
    Json json = small_json_tokenizer();
    json["normalizer"] = {{"type", "Strip"}};
    json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
    expect_json_refused(json, {"deletes or decomposes"});
}

TEST(TokenizerJson, RefusesADecoderThatMakesTheVocabularyGrow) {
    Json json = small_json_tokenizer();
    for (int i = 0; i < 70000; ++i) json["model"]["vocab"]["a" + std::to_string(i)] = 10 + i;
    json["decoder"] = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'x')}};
    expect_json_refused(json, {"decoder", "more than 67108864 bytes"});
}

TEST(TokenizerJson, RefusesABadVocabulary) {
    Json json = small_json_tokenizer();
    for (const Json& id : {Json(-1), Json(1.5), Json("0"), Json(1 << 21), Json(uint64_t{1} << 63), Json(nullptr)}) {
        json["model"]["vocab"]["b"] = id;
        expect_json_refused(json, {"vocab", "'b' has the id"});
    }
    json["model"]["vocab"]["b"] = 0;
    expect_json_refused(json, {"two tokens", "id 0"});
    json["model"]["vocab"] = Json::object();
    json["model"]["merges"] = Json::array();
    expect_json_refused(json, {"vocabulary is empty"});
    json = small_json_tokenizer();
    json["model"]["vocab"][std::string(1 << 20, 'x')] = 17;
    expect_json_refused(json, {"a token has 1048576 bytes, at most 4096"});
}

TEST(TokenizerJson, RefusesBadMerges) {
    const auto refuse = [](const Json& merge, const std::string& part) {
        Json json = small_json_tokenizer();
        json["model"]["merges"] = Json::array({"a b", merge});
        expect_json_refused(json, {"merge 1", part});
    };
    refuse("ab", "expected two tokens");
    refuse("a b c", "expected two tokens");
    refuse(Json::array({"a"}), "expected two tokens");
    refuse(Json::array({"a", 3}), "expected two tokens");
    refuse(7, "expected two tokens");
    refuse("a z", "'z', ");
    refuse("b a", "'ba', ");
}

TEST(TokenizerJson, RefusesBadAddedTokens) {
    const auto refuse = [](const std::vector<Json>& tokens, const std::string& part) {
        Json json = small_json_tokenizer();
        json["added_tokens"] = tokens;
        expect_json_refused(json, {part});
    };
    refuse({json_added(5, "x"), json_added(5, "y")}, "have the id 5");
    refuse({json_added(1, "a")}, "'a' with id 1 contradicts");
    refuse({json_added(1, "new")}, "'new' with id 1 contradicts");
    refuse({json_added(9, "a")}, "'a' with id 9 contradicts the vocabulary");
    refuse({json_added(-1, "x")}, "'id' is -1");
    refuse({json_added(1 << 21, "x")}, "'id' is 2097152");
    refuse({{{"id", 5}}}, "'content' is missing");
    refuse({json_added(5, std::string(5000, 'x'))}, "5000 bytes");
    refuse({{{"id", 5}, {"content", "x"}, {"special", 1}}}, "'special' is number");
    Json json = small_json_tokenizer();
    json["added_tokens"] = {{"x", 1}};
    expect_json_refused(json, {"added_tokens is object, expected a list"});
}

}  // namespace
}  // namespace trireme::test
