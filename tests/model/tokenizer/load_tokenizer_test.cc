#include <gtest/gtest.h>

#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/files/support.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

Json small_json() {
    Json json = json_tokenizer({"a", "<s>", "</s>", "<e>"}, {});
    json["added_tokens"] = {json_added(1, "<s>", {"special"}), json_added(2, "</s>", {"special"}),
                            json_added(3, "<e>", {"special"})};
    return json;
}

TEST(LoadTokenizer, TakesAFolderOrAFile) {
    const TempFolder folder;
    const auto json = folder.write("tokenizer.json", small_json().dump());
    EXPECT_EQ(load_tokenizer(folder.path())->vocab(), 4);
    EXPECT_EQ(load_tokenizer(json)->vocab(), 4);

    const TempFolder other;
    const auto model = other.write("tokenizer.model", serialize(spm_model({"a"})));
    EXPECT_EQ(load_tokenizer(other.path())->vocab(), 261);
    EXPECT_EQ(load_tokenizer(model)->vocab(), 261);
    other.write("tokenizer.json", small_json().dump());
    EXPECT_EQ(load_tokenizer(other.path())->vocab(), 4);  // tokenizer.json has precedence
}

TEST(LoadTokenizer, SaysWhatIsMissing) {
    const TempFolder folder;
    expect_error([&] { load_tokenizer(folder.path()); }, Exit::kNoInput, {"tokenizer.json or tokenizer.model"});
    expect_error([&] { load_tokenizer(folder.path() / "nowhere"); }, Exit::kNoInput, {"nowhere"});
    const auto text = folder.write("tokenizer.txt", "x");
    expect_error([&] { load_tokenizer(text); }, Exit::kData, {"tokenizer.txt", ".json, .model, .gguf or .h5"});
    const auto gguf = folder.write("x.gguf", "GGUF");
    expect_error([&] { load_tokenizer(gguf); }, Exit::kData, {"x.gguf"});
    const auto json = folder.write("tokenizer.json", "{\"model\": ");
    expect_error([&] { load_tokenizer(json); }, Exit::kData, {"tokenizer.json", "not valid JSON"});
    const auto model = folder.write("tokenizer.model", "garbage!");
    expect_error([&] { load_tokenizer(model); }, Exit::kData, {"tokenizer.model"});
}

TEST(LoadTokenizer, ReadsTheFilesOfTheFolder) {
    const TempFolder folder;
    folder.write("tokenizer.json", small_json().dump());
    folder.write(
        "tokenizer_config.json",
        R"({"bos_token": {"content": "<s>", "lstrip": false}, "add_bos_token": true, "add_eos_token": false})");
    folder.write("special_tokens_map.json", R"({"bos_token": "</s>", "eos_token": "</s>"})");
    folder.write("generation_config.json", R"({"bos_token_id": 2, "eos_token_id": [2, 3]})");
    folder.write("config.json", R"({"eos_token_id": 1})");
    const auto tokenizer = load_tokenizer(folder.path());

    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    EXPECT_EQ(tokenizer->eos_ids(), (Ids{2, 3}));
    EXPECT_EQ(tokenizer->encode("a", true), Ids{0});  // tokenizer.json has no template: flags do not make one
}

TEST(LoadTokenizer, FallsBackToTheModelsConfig) {
    const TempFolder folder;
    folder.write("tokenizer.json", small_json().dump());
    folder.write("config.json", R"({"bos_token_id": 1, "eos_token_id": 3})");
    const auto tokenizer = load_tokenizer(folder.path());

    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 3);
    EXPECT_EQ(tokenizer->encode("a", true), Ids{0});  // nothing requests BOS
}

TEST(LoadTokenizer, AddsTokensToATokenizerModel) {
    const TempFolder folder;
    folder.write("tokenizer.model", serialize(spm_model({"a"})));
    folder.write("tokenizer_config.json",
                 R"({"added_tokens_decoder": {"1": {"content": "<s>", "special": true, "rstrip": true},
                     "261": {"content": "<pad>", "special": true}}, "add_bos_token": false})");
    folder.write("added_tokens.json", R"({"<pad>": 261, "<x>": 263})");
    const auto tokenizer = load_tokenizer(folder.path());

    EXPECT_EQ(tokenizer->encode("<pad><s>  a<x>", true), (Ids{261, 1, 260, 263}));
    EXPECT_EQ(tokenizer->vocab(), 264);
    EXPECT_TRUE(tokenizer->is_special(261));
    EXPECT_FALSE(tokenizer->is_special(263));
}

TEST(SpecialFiles, RefuseNonsense) {
    const auto refuse = [](const std::string& name, const std::string& text, const std::string& part) {
        const TempFolder folder;
        folder.write(name, text);
        expect_error([&] { read_special_files(folder.path()); }, Exit::kData, {name, part});
    };
    refuse("tokenizer_config.json", "[]", "expected an object");
    refuse("tokenizer_config.json", R"({"bos_token": 3})", "'bos_token' is number");
    refuse("tokenizer_config.json", R"({"bos_token": {"text": "x"}})", "'content' is missing");
    refuse("tokenizer_config.json", R"({"add_bos_token": "yes"})", "'add_bos_token' is string");
    refuse("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})", "id of a token");
    refuse("tokenizer_config.json", R"({"added_tokens_decoder": {"-1": {"content": "a"}}})", "id of a token");
    refuse("tokenizer_config.json", R"({"added_tokens_decoder": {"2097152": {"content": "a"}}})", "not the id");
    refuse("tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "a"}, "8": {"content": "a"}}})",
           "contradicts");
    refuse("added_tokens.json", R"({"a": "b"})", "'a' is string");
    refuse("added_tokens.json", R"({"a\n": -1})", R"('a\x0a' is -1)");
    refuse("added_tokens.json", R"({"\u007f": null})", R"('\x7f' is missing)");
    refuse("added_tokens.json", R"({"a": 7, "b": 7})", "contradicts");
    refuse("generation_config.json", R"({"eos_token_id": "x"})", "'eos_token_id'");
    refuse("generation_config.json", R"({"eos_token_id": [1, null]})", "'eos_token_id'");
    refuse("config.json", R"({"eos_token_id": 1.5})", "'eos_token_id'");
}

}  // namespace
}  // namespace trireme::test
