// Models written as GGUF files: the values and types of the source, blocks, keys, and what such files cannot state.

#include "model/checkpoint/model_gguf.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "model/checkpoint/gguf_keys.h"
#include "model/checkpoint/model_store.h"
#include "model/files/gguf_file.h"
#include "model/files/gguf_parts.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTestData = TRIREME_TEST_DATA;

fs::path gguf_of(const fs::path& model, const fs::path& path, const ConversionWish& wish = {}) {
    write_model_gguf(Conversion(model, wish), path, IfThere::kReplace, {}, [] {});
    return path;
}

std::vector<fs::path> models() {
    std::vector<fs::path> all;
    for (const fs::directory_entry& e : fs::directory_iterator(kTestData / "tiny")) all.push_back(e.path());
    for (const fs::directory_entry& e : fs::directory_iterator(kTestData / "gguf")) {
        if (e.path().extension() == ".gguf") all.push_back(e.path());
    }
    std::ranges::sort(all);
    return all;
}

const std::vector<std::string> kUnwritable = {"dynamic-across", "dynamic-below", "dynamic-beyond",  "mistral-window",
                                              "qwen2-types",    "qwen2-window",  "yarn-no-truncate"};

bool is_unwritable(const fs::path& model) {
    return std::ranges::find(kUnwritable, model.filename().string()) != kUnwritable.end();
}

TEST(ModelGguf, HasTheTensorsOfTheModel) {
    int written = 0;
    for (const fs::path& model : models()) {
        SCOPED_TRACE(model);
        if (is_unwritable(model)) continue;
        const TempFolder folder;
        const auto got = open_model(gguf_of(model, folder.path() / "m.gguf")), want = open_model(model);
        ASSERT_EQ(got->tensors().size(), want->tensors().size());
        for (size_t i = 0; i < want->tensors().size(); ++i) {
            const TensorInfo &a = got->tensors()[i], &b = want->tensors()[i];
            ASSERT_EQ(a.name, b.name);
            EXPECT_EQ(a.type, b.shape.rank() == 1 ? StoredType::kF32 : b.type) << a.name;
            EXPECT_EQ(read_all(*got, a.name), read_all(*want, b.name)) << a.name;
        }
        ++written;
    }
    EXPECT_GT(written, 50);
}

TEST(ModelGguf, HasTheConfigOfTheModel) {
    for (const fs::path& model : models()) {
        SCOPED_TRACE(model);
        if (is_unwritable(model)) continue;
        const TempFolder folder;
        const LlamaConfig got = open_model(gguf_of(model, folder.path() / "m.gguf"))->config();
        const LlamaConfig want = open_model(model)->config();
        EXPECT_EQ(got.context, want.context);
        EXPECT_EQ(got.vocab, want.vocab);
        EXPECT_EQ(got.head_dim, want.head_dim);
        EXPECT_EQ(got.sliding_window, want.sliding_window);
        EXPECT_EQ(got.tied_embeddings, want.tied_embeddings);
        EXPECT_EQ(got.o_bias, want.o_bias);
        EXPECT_FLOAT_EQ(static_cast<float>(got.norm_eps), static_cast<float>(want.norm_eps));
        const RopeTable a = rope_table(got.rope, got.head_dim, 1), b = rope_table(want.rope, want.head_dim, 1);
        EXPECT_FLOAT_EQ(a.attention_scale, b.attention_scale);
        ASSERT_EQ(a.inv_freq.size(), b.inv_freq.size());
        for (size_t i = 0; i < a.inv_freq.size(); ++i) EXPECT_FLOAT_EQ(a.inv_freq[i], b.inv_freq[i]) << i;
    }
}

TEST(ModelGguf, CopiesAGgufFilesTensorsAndKeys) {
    for (const char* name : {"q4_k_m.gguf", "llama3.gguf", "phi3_q4_0.gguf", "qwen2_q8_0.gguf"}) {
        SCOPED_TRACE(name);
        const TempFolder folder;
        const auto from = open_file(kTestData / "gguf" / name),
                   to = open_file(gguf_of(kTestData / "gguf" / name, folder.path() / "m.gguf"));
        const GgufFile a = read_gguf(*from), b = read_gguf(*to);
        for (const GgufTensor& t : a.tensors) {
            const auto it = std::ranges::find(b.tensors, t.name, &GgufTensor::name);
            ASSERT_NE(it, b.tensors.end()) << t.name;
            EXPECT_EQ(it->type_name, t.type_name) << t.name;
            std::vector<std::byte> x(t.bytes), y(it->bytes);
            from->read(t.offset, x);
            to->read(it->offset, y);
            EXPECT_EQ(x, y) << t.name;
        }
        EXPECT_EQ(a.tensors.size(), b.tensors.size());
        for (const GgufFile::Entry& e : a.entries) EXPECT_TRUE(b.metadata.has(e.key)) << e.key;
        EXPECT_EQ(b.metadata.integer("general.file_type"), a.metadata.integer("general.file_type"));
    }
}

TEST(ModelGguf, QuantisesLikeTheStore) {
    const FileType* const type = file_type_named("Q4_K_M");
    const TempFolder folder;
    const ConversionWish wish = {.quantise = type};
    const fs::path model = kTestData / "models" / "kjv-target", h5 = folder.path() / "m.h5";
    const auto gguf = open_model(gguf_of(model, folder.path() / "m.gguf", wish));
    for (const int ranks : {1, 2, 3}) {
        write_model_store(Conversion(model, wish), h5, IfThere::kReplace, ranks, [] {});
        const auto store = open_model(h5);
        for (const TensorInfo& t : gguf->tensors()) {
            SCOPED_TRACE(t.name);
            EXPECT_EQ(read_all(*store, t.name), read_all(*gguf, t.name));
            if (t.shape.rank() == 1) continue;
            EXPECT_EQ(t.type, type_in(*type, gguf->config(), t.name, t.shape[1]));
            EXPECT_EQ(store->info(t.name).type, t.type);
        }
    }
    const auto file = open_file(folder.path() / "m.gguf");
    EXPECT_EQ(read_gguf(*file).metadata.required_integer("general.file_type"), 15);
}

TEST(ModelGguf, RefusesToQuantiseBlocksAgain) {
    expect_error([] { Conversion(kTestData / "gguf" / "q8_0.gguf", {.quantise = file_type_named("Q4_0")}); },
                 Exit::kUsage, {"--quantise Q4_0", "q8_0.gguf", "Q8_0", "f32, f16 or bf16"});
}

TEST(ModelGguf, RefusesWhatGgufCannotState) {
    const TempFolder folder;
    for (const std::string& name : kUnwritable) {
        expect_error([&] { gguf_of(kTestData / "tiny" / name, folder.path() / "m.gguf"); }, Exit::kUsage,
                     {"a GGUF file cannot state", ".h5 or a folder"});
    }
    expect_error(
        [&] { gguf_of(kTestData / "models" / "kjv-target", folder.path() / "m.gguf", {.layer_map = "0_1_1_1_1_5"}); },
        Exit::kUsage, {"which layers read the keys and values of others"});
    EXPECT_TRUE(fs::is_empty(folder.path()));
}

// Values beyond f16 in one row: the row is named, and no file appears.
TEST(ModelGguf, RefusesScalesBeyondF16) {
    const TempFolder folder;
    folder.write("config.json", R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32,
        "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 4,
        "tie_word_embeddings": true, "rms_norm_eps": 1e-5})");
    MadeTensors tensors;
    const auto add = [&](const std::string& name, std::vector<int64_t> shape, float last) {
        std::vector<float> values(static_cast<size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)), 0.5F);
        values.back() = last;
        tensors[name] = {"F32", shape,
                         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
    };
    add("model.embed_tokens.weight", {4, 32}, 1);
    add("model.norm.weight", {32}, 1);
    const std::string layer = "model.layers.0.";
    for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) add(layer + norm + ".weight", {32}, 1);
    for (const char* matrix : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                               "mlp.gate_proj", "mlp.up_proj"}) {
        add(layer + matrix + ".weight", {32, 32}, 1);
    }
    add(layer + "mlp.down_proj.weight", {32, 32}, 1e9F);
    folder.write("model.safetensors", safetensors(tensors));
    expect_error([&] { gguf_of(folder.path(), folder.path() / "m.gguf", {.quantise = file_type_named("Q8_0")}); },
                 Exit::kConfig, {"mlp.down_proj.weight", "row 31", "Q8_0", "--dtype"});
    EXPECT_FALSE(fs::exists(folder.path() / "m.gguf"));
}

}  // namespace
}  // namespace trireme::test
