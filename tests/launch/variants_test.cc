// Variants of config.json, generation_config.json and tokenizer files, which tests/reference/variants.py lists: ids are
// those of transformers.

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;

json table(const char* name) {
    return json::parse(read_file(data(std::string("variants/") + name)));
}

TEST(Variants, OfConfigsGiveTheTokensOfTransformers) {
    const json all = table("configs.json");
    const TempFolder folder;
    write_file(folder / "prompt.json", all.at("prompt").dump());
    std::filesystem::copy_file(data("models/kjv-target/model.safetensors"), folder / "model.safetensors");
    for (const json& variant : all.at("variants")) {
        write_file(folder / "config.json", variant.at("config"));
        std::filesystem::remove(folder / "generation_config.json");
        if (variant.contains("generation_config"))
            write_file(folder / "generation_config.json", variant["generation_config"]);
        const ProcessResult r =
            trireme({"generate", "-m", folder.path(), "--prompt-ids", folder / "prompt.json", "-n", "10", "--temp", "0",
                     "--dtype", "f32", "--kv-cache-dtype", "f32", "-t", "1", "--print", "ids"});
        ASSERT_EQ(r.status, 0) << variant.at("name") << r.err;
        EXPECT_EQ(json::parse(r.out), variant.at("ids")) << variant.at("name");
    }
    EXPECT_GE(all.at("variants").size(), 50u);
}

TEST(Variants, OfTokenizersGiveTheIdsOfTransformers) {
    const json all = table("tokenizers.json");
    for (const json& variant : all.at("variants")) {
        const TempFolder folder;
        write_file(folder / "config.json", "{}");
        if (variant.at("spm"))
            std::filesystem::copy_file(data("models/kjv-target/tokenizer.model"), folder / "tokenizer.model");
        for (const auto& [name, text] : variant.at("files").items()) {
            const std::string said = text;
            write_file(folder / name, name == "tokenizer.json" ? read_file(data(said + "/" + name)) : said);
        }
        for (size_t i = 0; i < all.at("texts").size(); ++i) {
            write_file(folder / "text", all.at("texts")[i]);
            const ProcessResult r = trireme({"tokenize", "-m", folder.path(), "-f", folder / "text", "--add-special"});
            ASSERT_EQ(r.status, 0) << variant.at("name") << r.err;
            EXPECT_EQ(json::parse(r.out), variant.at("ids")[i]) << variant.at("name") << all.at("texts")[i];
        }
    }
    EXPECT_GE(all.at("variants").size(), 24u);
}

}  // namespace
}  // namespace trireme::test
