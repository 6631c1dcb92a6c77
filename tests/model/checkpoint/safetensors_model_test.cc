#include "model/checkpoint/safetensors_model.h"

#include <cmath>
#include <cstring>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "model/checkpoint/expected_tensors.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kTiny = fs::path(TRIREME_TEST_DATA) / "tiny";

std::string index_of(const std::map<std::string, std::string>& map) {
    Json json;
    for (const auto& [name, file] : map) json["weight_map"][name] = file;
    return json.dump();
}

/// The small model in two shards with an index: layer 1 and lm_head in the second.
void write_sharded(const TempFolder& folder) {
    MadeTensors first, second;
    std::map<std::string, std::string> map;
    for (const auto& [name, t] : small_tensors()) {
        const bool late = name.find("layers.1.") != std::string::npos || name == "lm_head.weight";
        (late ? second : first)[name] = t;
        map[name] = late ? "model-00002-of-00002.safetensors" : "model-00001-of-00002.safetensors";
    }
    folder.write("config.json", small_config());
    folder.write("model-00001-of-00002.safetensors", safetensors(first));
    folder.write("model-00002-of-00002.safetensors", safetensors(second));
    folder.write("model.safetensors.index.json", index_of(map));
}

TEST(SafetensorsModel, ReadsWhatWasWritten) {
    const TempFolder folder;
    write_small_model(folder, small_tensors());

    const auto model = open_model(folder.path());

    EXPECT_EQ(model->config().dim, 16);
    EXPECT_EQ(model->natural_dtype(), DType::kF32);
    EXPECT_EQ(model->tensors().size(), 21u);
    EXPECT_EQ(model->tensors().front().name, "model.embed_tokens.weight");
    EXPECT_EQ(model->tensors().back().name, "lm_head.weight");
    float next = 0;
    for (const TensorInfo& t : model->tensors()) {
        for (const float x : read_all(*model, t.name)) ASSERT_EQ(x, next++ / 1024) << t.name;
    }
    EXPECT_EQ(read_f32(*model, "model.layers.0.mlp.down_proj.weight", 3, 8, {2, 16}).size(), 32u);
    expect_error([&] { read_all(*model, "model.layers.9.mlp.down_proj.weight"); }, Exit::kInternal, {"no tensor"});
    expect_error([&] { read_f32(*model, "model.norm.weight", 0, 0, {1, 16}); }, Exit::kInternal, {"read as"});
}

TEST(SafetensorsModel, ShardsAreTheSameModel) {
    const TempFolder single, sharded;
    write_small_model(single, small_tensors());
    write_sharded(sharded);

    const auto a = open_model(single.path()), b = open_model(sharded.path());

    ASSERT_EQ(a->tensors().size(), b->tensors().size());
    for (const TensorInfo& t : a->tensors()) EXPECT_EQ(read_all(*a, t.name), read_all(*b, t.name)) << t.name;
}

TEST(SafetensorsModel, EveryTinyModelOpensAndReads) {
    int models = 0;
    for (const auto& entry : fs::directory_iterator(kTiny)) {
        SCOPED_TRACE(entry.path().filename().string());
        const auto model = open_model(entry.path());
        for (const TensorInfo& t : model->tensors()) EXPECT_FALSE(read_all(*model, t.name).empty());
        ++models;
    }
    EXPECT_GE(models, 12);
}

TEST(SafetensorsModel, MixedTypesTakeTheTypeOfMostElements) {
    const auto model = open_model(kTiny / "mixed-types");
    EXPECT_EQ(model->natural_dtype(), DType::kBF16);
    EXPECT_EQ(model->info("model.norm.weight").type, StoredType::kF32);
    EXPECT_EQ(model->info("lm_head.weight").type, StoredType::kBF16);
}

TEST(SafetensorsModel, EveryWrongShapeIsNamed) {
    for (const auto& [name, tensor] : small_tensors()) {
        SCOPED_TRACE(name);
        const TempFolder folder;
        MadeTensors tensors = small_tensors();
        MadeTensor& t = tensors[name];
        t.shape.push_back(1);  // same bytes, another rank
        const std::string found =
            fmt::format("{}, 1]", t.shape.size() == 2 ? fmt::format("[{}", t.shape[0])
                                                      : fmt::format("[{}, {}", t.shape[0], t.shape[1]));
        write_small_model(folder, tensors);
        expect_error([&] { open_model(folder.path()); }, Exit::kData, {"1 tensor ", name + ": ", found});

        t.shape.pop_back();
        t.shape.front() += 1;
        t.data.resize(t.data.size() / static_cast<size_t>(t.shape.front() - 1) * static_cast<size_t>(t.shape.front()));
        write_small_model(folder, tensors);
        expect_error([&] { open_model(folder.path()); }, Exit::kData, {"1 tensor ", name + ": "});

        tensors.erase(name);
        write_small_model(folder, tensors);
        expect_error([&] { open_model(folder.path()); }, Exit::kData, {"1 tensor ", name + ": ", "missing"});
    }
}

TEST(SafetensorsModel, AllProblemsAreShownAtOnceUpToTwenty) {
    const TempFolder folder;
    MadeTensors tensors = small_tensors();
    tensors.erase("model.norm.weight");
    tensors["model.embed_tokens.weight"].dtype = "I32";
    tensors["model.layers.0.self_attn.q_proj.bias"] = {"F32", {16}, std::string(64, '\0')};
    write_small_model(folder, tensors);
    expect_error([&] { open_model(folder.path()); }, Exit::kData,
                 {"3 tensors ", "model.norm.weight: [16] / missing", "model.embed_tokens.weight: [12, 16] ",
                  " / [12, 16] I32", "model.layers.0.self_attn.q_proj.bias: nothing / "});

    write_small_model(folder, {{"model.norm.weight", tensors["model.layers.0.input_layernorm.weight"]}});
    folder.write("config.json", small_config(R"(, "tie_word_embeddings": false)"));
    expect_error([&] { open_model(folder.path()); }, Exit::kData, {"20 tensors "});
    Json json = parse_json(small_config(), "c");
    json["num_hidden_layers"] = 5;
    folder.write("config.json", json.dump());
    expect_error([&] { open_model(folder.path()); }, Exit::kData, {"47 tensors ", " 27 more"});
}

TEST(SafetensorsModel, HarmlessExtrasAreTolerated) {
    const TempFolder folder;
    MadeTensors tensors = small_tensors();
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {"F32", {4}, std::string(16, '\0')};
    tensors["value_head.weight"] = {"I64", {1}, std::string(8, '\0')};
    write_small_model(folder, tensors);
    EXPECT_NO_THROW(open_model(folder.path()));
}

TEST(SafetensorsModel, ATiedHeadIsNotReadWhereItIsTheEmbedding) {
    const TempFolder folder;
    MadeTensors tensors = small_tensors();
    const auto head_of = [&] {
        folder.write("model.safetensors", safetensors(tensors));
        const auto model = open_model(folder.path());
        EXPECT_EQ(model->config().tied_embeddings, model->tensors().back().name != "lm_head.weight");
        return model->config().tied_embeddings ? "tied" : "own";
    };
    folder.write("config.json", small_config(R"(, "tie_word_embeddings": true)"));
    EXPECT_STREQ(head_of(), "own");  // other values: transformers 5 warns, and uses them
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
    EXPECT_STREQ(head_of(), "tied");
    tensors["lm_head.weight"].data.back() ^= 1;  // the last value of all
    EXPECT_STREQ(head_of(), "own");
    tensors["lm_head.weight"] = {"I64", {1}, std::string(8, '\0')};  // no head at all
    EXPECT_STREQ(head_of(), "tied");
    tensors.erase("lm_head.weight");
    EXPECT_STREQ(head_of(), "tied");
}

TEST(SafetensorsModel, AnUnusedTensorMayHaveAnyType) {
    const TempFolder folder;
    for (const auto& [type, bytes] : {std::pair("F8_E8M0", 4), std::pair("F4", 2), std::pair("F6_E2M3", 3),
                                      std::pair("C64", 32), std::pair("F8_E4M3FNUZ", 4), std::pair("NEWER", 7)}) {
        MadeTensors tensors = small_tensors();
        tensors["extra.scale"] = {type, {4}, std::string(static_cast<size_t>(bytes), '\0')};
        write_small_model(folder, tensors);
        EXPECT_NO_THROW(open_model(folder.path())) << type;
        tensors["lm_head.weight"] = {type, {4}, std::string(static_cast<size_t>(bytes), '\0')};
        write_small_model(folder, tensors);
        expect_error([&] { open_model(folder.path()); }, Exit::kData, {"lm_head.weight: [12, 16] ", " / [4] ", type});
    }
    MadeTensors tensors = small_tensors();
    tensors["extra.scale"] = {"F4", {4}, std::string(3, '\0')};
    write_small_model(folder, tensors);
    expect_error([&] { open_model(folder.path()); }, Exit::kData, {"[4] of F4 "});
}

TEST(SafetensorsModel, ANanAnywhereIsNamed) {
    for (const auto& [name, tensor] : small_tensors()) {
        const TempFolder folder;
        MadeTensors tensors = small_tensors();
        const float nan = std::nanf("");
        std::memcpy(tensors[name].data.data() + 4 * 5, &nan, 4);
        write_small_model(folder, tensors);
        const auto model = open_model(folder.path());
        for (const auto& [other, unused] : tensors) {
            if (other == name) continue;
            EXPECT_NO_THROW(read_all(*model, other));
        }
        expect_error([&] { read_all(*model, name); }, Exit::kData, {"'" + name + "'", "element 5"});
    }
}

TEST(SafetensorsModel, TruncationAnywhereIsRefused) {
    const TempFolder folder;
    write_small_model(folder, small_tensors());
    const std::string weights = slurp(folder.path() / "model.safetensors"), config = small_config();
    const auto refuses = [&] {
        try {
            open_model(folder.path());
            return false;
        } catch (const Error& e) {
            return e.code() == Exit::kData;
        }
    };
    for (size_t n = 0; n < weights.size(); n += n < 4096 ? 1 : 61) {
        folder.write("model.safetensors", std::string_view(weights).substr(0, n));
        ASSERT_TRUE(refuses()) << n << " bytes of weights";
    }
    folder.write("model.safetensors", weights);
    for (size_t n = 0; n < config.size(); ++n) {
        folder.write("config.json", std::string_view(config).substr(0, n));
        ASSERT_TRUE(refuses()) << n << " bytes of config";
    }
}

TEST(SafetensorsModel, AFileThatChangesAfterOpeningIsNotRead) {
    const TempFolder folder;
    write_small_model(folder, small_tensors());
    const auto model = open_model(folder.path());

    fs::resize_file(folder.path() / "model.safetensors", 2000);

    expect_error([&] { read_all(*model, "model.layers.1.mlp.down_proj.weight"); }, Exit::kIo, {"model.safetensors"});
    expect_error([&] { read_all(*model, "lm_head.weight"); }, Exit::kIo, {});
}

TEST(SafetensorsModel, RefusesBadShards) {
    const TempFolder folder;
    const fs::path second = folder.path() / "model-00002-of-00002.safetensors";
    const std::string index = "model.safetensors.index.json";
    write_sharded(folder);
    const std::string good_index = slurp(folder.path() / index), good_second = slurp(second);
    const auto open = [&] { open_model(folder.path()); };
    EXPECT_NO_THROW(open());

    fs::remove(second);
    expect_error(open, Exit::kNoInput, {"model-00002-of-00002.safetensors"});
    fs::create_directory(second);
    expect_error(open, Exit::kData, {"regular file"});
    fs::remove(second);
    ASSERT_EQ(mkfifo(second.c_str(), 0600), 0);
    expect_error(open, Exit::kData, {"regular file"});
    fs::remove(second);
    folder.write("model-00002-of-00002.safetensors", safetensors(MadeTensors{}));
    expect_error(open, Exit::kData, {"10 tensors ", "lm_head.weight: [12, 16] / not in model-00002"});
    folder.write("model-00002-of-00002.safetensors", good_second);

    for (const char* name : {"../model-00002-of-00002.safetensors", "/etc/passwd", "..", "a/../b", ""}) {
        Json json = parse_json(good_index, "index");
        json["weight_map"]["lm_head.weight"] = name;
        folder.write(index, json.dump());
        expect_error(open, Exit::kData, {"plain file name"});
    }
    for (const char* text : {"{}", "[]", R"({"weight_map": []})", R"({"weight_map": {"lm_head.weight": 1}})", "{"}) {
        folder.write(index, text);
        expect_error(open, Exit::kData, {index});
    }
    folder.write(index, R"({"weight_map": {}})");
    expect_error(open, Exit::kData, {"21 tensors "});
}

TEST(SafetensorsModel, SaysWhatAFolderLacks) {
    const TempFolder folder;
    expect_error([&] { open_model(folder.path() / "none"); }, Exit::kNoInput, {"none", "no such file"});
    expect_error([&] { open_model(folder.path()); }, Exit::kNoInput, {"config.json", ".gguf file"});
    folder.write("config.json", small_config());
    expect_error([&] { open_model(folder.path()); }, Exit::kNoInput, {"model.safetensors", "pickled"});
    expect_error([&] { open_model(folder.write("x.safetensors", "")); }, Exit::kData, {"model folder"});
    folder.write("model.safetensors", "garbage garbage garbage garbage garbage");
    expect_error([&] { open_model(folder.path()); }, Exit::kData, {"model.safetensors", "header claims"});
}

TEST(SafetensorsModel, LayersThatReadAnothersKvHaveNoneOfTheirOwn) {
    LlamaConfig c = parse_config(parse_json(small_config(), "c"), "c");
    c.layer_map = LayerMap::parse("1_1", 2, "test");
    const auto tensors = expected_tensors(c);
    EXPECT_EQ(tensors.size(), 19u);
    for (const ExpectedTensor& t : tensors) {
        EXPECT_NE(t.name, "model.layers.0.self_attn.k_proj.weight");
        EXPECT_NE(t.name, "model.layers.0.self_attn.v_proj.weight");
    }
}

TEST(SafetensorsModel, GenerationConfigIsRead) {
    const TempFolder folder;
    write_small_model(folder, small_tensors());
    folder.write("generation_config.json", R"({"eos_token_id": [7, 8]})");
    EXPECT_EQ(open_model(folder.path())->config().eos, (std::vector<int32_t>{7, 8}));
}

}  // namespace
}  // namespace trireme::test
