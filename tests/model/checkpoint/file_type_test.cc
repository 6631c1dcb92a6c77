// The types of matrices in quantised files, compared with those that llama-quantize chooses for models of six shapes.

#include "model/checkpoint/file_type.h"

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/tensor_names.h"

namespace trireme::test {
namespace {

/// {"llama", 17, 256, 512, 4, 4, false}: family, layers, dim, feed-forward columns, heads, KV heads, tied embeddings.
LlamaConfig config_of(const nlohmann::json& shape) {
    LlamaConfig c;
    c.family = &architecture_of(shape[0].get<std::string>(), "the test");
    c.n_layers = shape[1];
    c.dim = shape[2];
    c.ffn_dim = shape[3];
    c.n_heads = shape[4];
    c.n_kv_heads = shape[5];
    c.tied_embeddings = shape[6];
    c.head_dim = c.dim / c.n_heads;
    c.vocab = 512;
    c.qkv_bias = c.family->biases == Biases::kQkv;
    c.layer_map = LayerMap::identity(c.n_layers);
    return c;
}

/// By kind of tensor in GGUF ("attn_v"): the types of all layers, as runs: "Q4_K*3 Q6_K*1".
std::map<std::string, std::string> runs(const FileType& file, const LlamaConfig& c) {
    std::map<std::string, std::vector<std::string>> types;
    for (const ExpectedTensor& t : expected_tensors(c)) {
        const FileTensor there = in_gguf(c, t);
        if (t.shape.rank() != 2 || there.row0 > 0) continue;
        std::string kind = there.name.substr(0, there.name.size() - std::string(".weight").size());
        if (kind.starts_with("blk.")) kind = kind.substr(kind.find('.', 4) + 1);
        types[kind].emplace_back(name_of(type_in(file, c, t.name, t.shape[1])));
    }
    std::map<std::string, std::string> all;
    for (const auto& [kind, list] : types) {
        for (size_t i = 0; i < list.size();) {
            size_t n = 1;
            while (i + n < list.size() && list[i + n] == list[i]) ++n;
            all[kind] += fmt::format("{}{}*{}", i == 0 ? "" : " ", list[i], n);
            i += n;
        }
    }
    return all;
}

TEST(FileType, ChoosesTheTypesOfLlamaQuantize) {
    std::ifstream file(std::filesystem::path(TRIREME_TEST_DATA) / "gguf" / "quantised.json");
    const auto golden = nlohmann::json::parse(file);
    int shapes = 0;
    for (; golden.contains(fmt::format("file_types_{}", shapes)); ++shapes) {
        const auto& of_shape = golden[fmt::format("file_types_{}", shapes)];
        const LlamaConfig c = config_of(of_shape["shape"]);
        EXPECT_EQ(of_shape["types"].size(), file_types().size());
        for (const auto& [name, types] : of_shape["types"].items()) {
            const FileType* const type = file_type_named(name);
            ASSERT_NE(type, nullptr) << name;
            EXPECT_EQ(runs(*type, c), (types.get<std::map<std::string, std::string>>()))
                << name << " " << of_shape["shape"];
        }
    }
    EXPECT_EQ(shapes, 6);
}

TEST(FileType, IsFoundInAnyCaseAndByItsShortName) {
    EXPECT_EQ(file_type_named("q4_k_m"), file_type_named("Q4_K"));
    EXPECT_EQ(file_type_named("q8_0")->number, 7U);
    EXPECT_EQ(file_type_named("F16"), nullptr);
    EXPECT_EQ(file_type_named(""), nullptr);
}

// 24 columns are no whole blocks of 32.
TEST(FileType, LeavesRowsThatAreNoBlocksPlain) {
    LlamaConfig c = config_of(nlohmann::json::parse(R"(["llama", 2, 24, 64, 4, 4, false])"));
    EXPECT_EQ(type_in(*file_type_named("Q4_K_M"), c, "model.layers.0.self_attn.q_proj.weight", 24), StoredType::kF16);
    EXPECT_EQ(type_in(*file_type_named("Q8_0"), c, "lm_head.weight", 24), StoredType::kF16);
    EXPECT_EQ(type_in(*file_type_named("Q4_K_M"), c, "model.layers.0.mlp.down_proj.weight", 64), StoredType::kQ5_0);
}

}  // namespace
}  // namespace trireme::test
