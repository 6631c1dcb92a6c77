// Tokenizers written as GGUF metadata: the ids of the reference for 2,000 strings, and those that GGUF cannot state.

#include "model/tokenizer/gguf_export.h"

#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/files/byte_source.h"
#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTokenizers = fs::path(TRIREME_TEST_DATA) / "tokenizers";

TextOf texts_of(const fs::path& folder) {
    return [folder](const char* name, uint64_t) -> std::optional<std::string> {
        if (!fs::exists(folder / name)) return {};
        return slurp(folder / name);
    };
}

GgufTokenizer exported(const fs::path& folder, int64_t more = 0) {
    const auto own = load_tokenizer(folder);
    return export_tokenizer(*own, texts_of(folder), own->vocab() + more, folder.string());
}

/// The tokenizer of a GGUF file with these entries and nothing else.
std::unique_ptr<Tokenizer> read_back(const TempFolder& folder, const GgufEntries& entries) {
    const fs::path path = folder.path() / "t.gguf";
    GgufWriter(path, IfThere::kReplace, entries, {}).publish();
    return load_tokenizer(path);
}

class Export : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Export, GivesTheIdsOfTheReference) {
    const auto& [name, pre] = GetParam();
    const fs::path from = kTokenizers / name;
    const TempFolder folder;
    const GgufTokenizer t = exported(from);
    EXPECT_EQ(t.pre, pre);
    const auto tokenizer = read_back(folder, tokenizer_entries(t, texts_of(from)));
    const auto own = load_tokenizer(from);
    std::ifstream file(from / "golden.json");
    const auto golden = nlohmann::json::parse(file);
    for (size_t i = 0; i < golden["strings"].size(); ++i) {
        const auto text = golden["strings"][i].get<std::string>();
        // After special tokens, GGUF's llama tokenizer adds a space and SentencePiece's does not.
        if (t.model == "llama" && text.find('<') != std::string::npos) continue;
        // Qwen2's own files normalise the text first.
        const auto want = golden["ids"][i].get<std::vector<int32_t>>();
        if (std::string_view(name) == "qwen2" && own->decode(want) != text) continue;
        ASSERT_EQ(tokenizer->encode(text, false), want) << golden["strings"][i];
    }
    EXPECT_EQ(tokenizer->encode("And God said", true), own->encode("And God said", true));
    EXPECT_EQ(tokenizer->vocab(), own->vocab());
    if (own->bos() >= 0) {
        EXPECT_EQ(tokenizer->bos(), own->bos());
    }
    EXPECT_EQ(tokenizer->eos(), own->eos());
    for (const int32_t id : own->eos_ids()) EXPECT_TRUE(std::ranges::count(tokenizer->eos_ids(), id)) << id;
    for (int32_t id = 0; id < own->vocab(); ++id) EXPECT_EQ(tokenizer->is_special(id), own->is_special(id)) << id;
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Export,
                         testing::Values(std::pair{"gpt2", "gpt-2"}, std::pair{"smollm", "smollm"},
                                         std::pair{"llama3", "llama-bpe"}, std::pair{"qwen2", "qwen2"},
                                         std::pair{"sentencepiece", ""}),
                         [](const auto& tested) { return std::string(tested.param.first); });

// A tokenizer.json of Llama-2's kind without a tokenizer.model: scores follow from the order of merges. Two tokens of
// the file contain the name of a byte token, which GGUF's rule would make of it.
TEST(GgufExport, ScoresTokensByTheirMerges) {
    expect_error([] { exported(kTokenizers / "llama2"); }, Exit::kData, {"GGUF's 'llama' tokenizer", "<0x"});
    auto json = nlohmann::json::parse(slurp(kTokenizers / "llama2" / "tokenizer.json"));
    nlohmann::json merges = nlohmann::json::array();
    for (const auto& merge : json["model"]["merges"]) {
        if (merge.dump().find("0x") == std::string::npos) merges.push_back(merge);
    }
    json["model"]["merges"] = merges;
    for (const char* token : {"\u2581<0x0A>", "\u2581<0x41>"}) json["model"]["vocab"].erase(token);
    const TempFolder folder;
    folder.write("tokenizer.json", json.dump());
    const auto own = load_tokenizer(folder.path());
    const auto tokenizer = read_back(folder, tokenizer_entries(exported(folder.path()), texts_of(folder.path())));
    std::ifstream file(kTokenizers / "llama2" / "golden.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& string : golden["strings"]) {
        const auto text = string.get<std::string>();
        if (text.find('<') != std::string::npos || text.find("0x") != std::string::npos) continue;
        ASSERT_EQ(tokenizer->encode(text, true), own->encode(text, true)) << string;
    }
}

TEST(GgufExport, NamesUnusedRowsOfTheEmbedding) {
    const TempFolder folder;
    const int64_t own = load_tokenizer(kTokenizers / "gpt2")->vocab();
    const GgufTokenizer t = exported(kTokenizers / "gpt2", 3);
    ASSERT_EQ(t.tokens.size(), static_cast<size_t>(own + 3));
    EXPECT_EQ(t.token_types.back(), 5);
    EXPECT_EQ(read_back(folder, tokenizer_entries(t, texts_of(kTokenizers / "gpt2")))->vocab(), own + 3);
}

TEST(GgufExport, WritesTheChatTemplate) {
    const TempFolder folder;
    for (const char* file : {"tokenizer.json"}) folder.write(file, slurp(kTokenizers / "gpt2" / file));
    const auto template_of = [&] {
        const fs::path path = folder.path() / "t.gguf";
        const TextOf texts = texts_of(folder.path());
        GgufWriter(path, IfThere::kReplace, tokenizer_entries(exported(folder.path()), texts), {}).publish();
        return read_gguf(*open_file(path)).metadata.string("tokenizer.chat_template").value_or("none");
    };
    EXPECT_EQ(template_of(), "none");
    folder.write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
    EXPECT_EQ(template_of(), "{{ messages }}");
    folder.write("tokenizer_config.json",
                 R"({"chat_template": [{"name": "tools", "template": "t"}, {"name": "default", "template": "d"}]})");
    EXPECT_EQ(template_of(), "d");
    folder.write("tokenizer_config.json",
                 R"({"chat_template": [{"name": 1, "template": "t"}, 5, {"name": "default"}]})");
    EXPECT_EQ(template_of(), "none");
    folder.write("chat_template.jinja", "{{ jinja }}");
    EXPECT_EQ(template_of(), "{{ jinja }}");
}

TEST(GgufExport, RefusesMoreTokensThanTheEmbeddingHasRows) {
    expect_error([] { exported(kTokenizers / "gpt2", -1); }, Exit::kData, {"tokens", "rows", ".h5 or a folder"});
}

TEST(GgufExport, NamesThreeTokensThatEndASequence) {
    const TempFolder folder;
    folder.write("tokenizer.json", slurp(kTokenizers / "gpt2" / "tokenizer.json"));
    folder.write("generation_config.json", R"({"eos_token_id": [5, 7, 9, 11]})");
    const GgufTokenizer t = exported(folder.path());
    const TextOf texts = texts_of(folder.path());
    const std::vector<int32_t> ends = read_back(folder, tokenizer_entries(t, texts))->eos_ids();
    for (const int32_t id : {5, 7, 9}) EXPECT_TRUE(std::ranges::count(ends, id)) << id;
}

// It adds a space before the first word, for which GGUF's byte-level tokenizer has no key.
TEST(GgufExport, RefusesATokenizerThatGgufCannotState) {
    expect_error([] { exported(kTokenizers / "gpt2-prefix-space"); }, Exit::kData,
                 {"gpt2-prefix-space", "GGUF's 'gpt2' tokenizer", ".h5 or a folder"});
}

TEST(GgufExport, NeedsATokenizer) {
    const TempFolder folder;
    expect_error(
        [&] {
            export_tokenizer(*load_tokenizer(kTokenizers / "gpt2"), texts_of(folder.path()), 0, folder.path().string());
        },
        Exit::kNoInput, {"tokenizer.json or tokenizer.model"});
}

}  // namespace
}  // namespace trireme::test
