// Models in stores: the layout of the bytes, that a model passes through a store unchanged, and refused stores.

#include "model/checkpoint/model_store.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "model/checkpoint/store_model.h"
#include "model/files/gguf_file.h"
#include "model/files/json.h"
#include "model/files/store/writer.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kData = TRIREME_TEST_DATA;

fs::path store_of(const fs::path& model, const fs::path& path, int ranks = 1, const ConversionWish& wish = {}) {
    write_model_store(Conversion(model, wish), path, IfThere::kReplace, ranks, [] {});
    return path;
}

/// The entry of a data set in the manifest, a JSON text at offset 24.
Json said_of(const std::string& file, const std::string& name) {
    uint64_t length = 0;
    std::memcpy(&length, file.data() + 8, sizeof length);
    const Json manifest = Json::parse(file.substr(24, length));
    for (const Json& set : manifest.at("sets")) {
        if (set.at("name") == name) return set;
    }
    return {};
}

std::vector<float> floats_at(const std::string& file, uint64_t offset, size_t n) {
    std::vector<float> values(n);
    std::memcpy(values.data(), file.data() + offset, n * sizeof(float));
    return values;
}

// dim 16, 2 heads of 8, 24 feed-forward columns: for 2 ranks o_proj [16, 16] is two blocks of 8 columns. The 24 columns
// of down_proj are one block of less than 32, which the first rank has.
TEST(ModelStore, ARanksColumnsLieTogether) {
    const TempFolder folder;
    write_small_model(folder, small_tensors());
    const std::string file = slurp(store_of(folder.path(), folder.path() / "m.h5", 2));
    const std::string o = "model.layers.1.self_attn.o_proj.weight", down = "model.layers.1.mlp.down_proj.weight";
    const std::vector<float> whole = read_all(*open_model(folder.path()), o);
    for (const size_t rank : {0, 1}) {
        SCOPED_TRACE(rank);
        const Json set = said_of(file, fmt::format("{}/{}", o, rank));
        EXPECT_EQ(set.at("type"), "f32");
        EXPECT_EQ(set.at("shape"), Json({16, 8}));
        const std::vector<float> columns = floats_at(file, set.at("offset"), 16 * 8);
        for (size_t r = 0; r < 16; ++r) {
            for (size_t c = 0; c < 8; ++c) EXPECT_EQ(columns[r * 8 + c], whole[r * 16 + rank * 8 + c]);
        }
    }
    EXPECT_TRUE(said_of(file, o).is_null());
    EXPECT_EQ(said_of(file, down).at("shape"), Json({16, 24}));
    EXPECT_EQ(said_of(file, "model.norm.weight").at("shape"), Json({16}));
    EXPECT_EQ(said_of(file, "files/config.json").at("type"), "u8");
}

/// Checks that two models have the same tensors, and that some slices of each are equal, as f32 and as bf16.
void expect_same(const WeightSource& a, const WeightSource& b) {
    ASSERT_EQ(a.tensors().size(), b.tensors().size());
    EXPECT_EQ(a.natural_dtype(), b.natural_dtype());
    for (size_t i = 0; i < a.tensors().size(); ++i) {
        const TensorInfo& t = a.tensors()[i];
        SCOPED_TRACE(t.name);
        ASSERT_EQ(t.name, b.tensors()[i].name);
        ASSERT_EQ(t.shape, b.tensors()[i].shape);
        EXPECT_EQ(read_all(a, t.name), read_all(b, t.name));
        if (t.shape.rank() == 1) {
            const int64_t n = t.shape[0];
            EXPECT_EQ(read_f32(a, t.name, n / 3, 0, {n / 2}), read_f32(b, t.name, n / 3, 0, {n / 2}));
            continue;
        }
        const int64_t rows = t.shape[0], cols = t.shape[1];
        for (const auto& [r, nr, c, nc] : {std::tuple{rows / 3, rows / 2, cols / 5, cols / 3},
                                           {rows - 1, int64_t{1}, cols - 1, int64_t{1}},
                                           {int64_t{0}, rows, cols / 4, cols / 2}}) {
            EXPECT_EQ(read_f32(a, t.name, r, c, {nr, nc}), read_f32(b, t.name, r, c, {nr, nc}));
            std::vector<uint16_t> from_a(static_cast<size_t>(nr * nc)), from_b(from_a.size());
            a.read(t.name, r, c, HostTensor(from_a.data(), DType::kBF16, {nr, nc}));
            b.read(t.name, r, c, HostTensor(from_b.data(), DType::kBF16, {nr, nc}));
            EXPECT_EQ(from_a, from_b);
        }
    }
}

TEST(ModelStore, HasTheWeightsOfTheFolder) {
    for (const char* name : {"plain-f32", "gqa2-f16", "gqa4-bf16", "mixed-types", "heads9-kv3", "sharded-3"}) {
        SCOPED_TRACE(name);
        const TempFolder folder;
        const fs::path model = kData / "tiny" / name;
        const std::unique_ptr<WeightSource> wanted = open_model(model);
        for (int ranks = 1; ranks <= std::min<int64_t>(3, wanted->config().n_heads); ++ranks) {
            SCOPED_TRACE(ranks);
            const fs::path path = store_of(model, folder.path() / "m.h5", ranks);
            const std::unique_ptr<WeightSource> got = open_model(path);
            expect_same(*got, *wanted);
            for (size_t i = 0; i < got->tensors().size(); ++i) {
                EXPECT_EQ(got->tensors()[i].type, wanted->tensors()[i].type) << got->tensors()[i].name;
            }
        }
    }
}

/// Checks that all rows of every matrix, and of some columns, have the blocks of the other model.
void expect_same_blocks(const WeightSource& a, const WeightSource& b) {
    int matrices = 0;
    for (const TensorInfo& t : b.tensors()) {
        if (!is_quantised(t.type)) continue;
        SCOPED_TRACE(t.name);
        ASSERT_EQ(a.info(t.name).type, t.type);
        const BlockLayout layout = layout_of(t.type);
        const int64_t rows = t.shape[0], blocks = t.shape[1] / layout.elements;
        for (const auto& [row, n, first, past] :
             {std::tuple{int64_t{0}, rows, int64_t{0}, blocks}, std::tuple{rows / 3, rows / 2, blocks / 3, blocks},
              std::tuple{rows - 1, int64_t{1}, blocks / 2, blocks / 2 + 1}}) {
            std::vector<std::byte> x(static_cast<size_t>(n * (past - first)) * layout.bytes), y(x.size());
            a.read_blocks(t.name, row, n, first * layout.elements, x);
            b.read_blocks(t.name, row, n, first * layout.elements, y);
            EXPECT_EQ(x, y);
        }
        ++matrices;
    }
    EXPECT_GT(matrices, 0);
}

TEST(ModelStore, KeepsBlocksForAnyNumberOfRanks) {
    std::vector<fs::path> models;
    for (const char* folder : {"gguf", "packed"}) {
        for (const fs::directory_entry& e : fs::directory_iterator(kData / folder)) {
            const std::string name = e.path().stem();
            const bool plain = name == "bf16" || name == "f16" || name == "f32" || name == "head_dim" ||
                               name == "linear" || name == "llama3" || name == "llama_bias" || name == "phi3" ||
                               name == "qwen2" || name == "qwen3" || name == "yarn";
            if (e.is_directory() || (e.path().extension() == ".gguf" && !plain)) models.push_back(e.path());
        }
    }
    ASSERT_GT(models.size(), 24u);
    for (const fs::path& model : models) {
        SCOPED_TRACE(model);
        const TempFolder folder;
        const std::unique_ptr<WeightSource> wanted = open_model(model);
        for (int ranks = 1; ranks <= std::min<int64_t>(4, wanted->config().n_heads); ++ranks) {
            SCOPED_TRACE(ranks);
            const std::unique_ptr<WeightSource> got = open_model(store_of(model, folder.path() / "m.h5", ranks));
            expect_same(*got, *wanted);
            expect_same_blocks(*got, *wanted);
        }
    }
}

TEST(ModelStore, RefusesBlocksOfAnUnknownTypeOrShape) {
    const TempFolder folder;
    const fs::path model = kData / "gguf" / "q4_0.gguf";
    const Conversion conversion(model, {});
    const std::string norm = "model.norm.weight", down = "model.layers.0.mlp.down_proj.weight";
    const auto written = [&](const Json& blocks, int64_t more) {
        std::vector<StoreSet> sets;
        for (const Conversion::Tensor& t : conversion.tensors()) {
            const BlockLayout layout = layout_of(t.written);
            std::vector<int64_t> shape = {t.shape[0]};
            if (t.shape.rank() == 2) {
                shape.push_back(t.shape[1] / layout.elements * static_cast<int64_t>(layout.bytes));
                if (!is_quantised(t.written)) shape.back() = t.shape[1];
            }
            if (t.name == down) shape.back() += more;
            sets.push_back({t.name, is_quantised(t.written) ? DType::kU8 : plain_dtype(t.written), shape});
        }
        const std::string config = conversion.config_json();
        sets.push_back({"files/config.json", DType::kU8, {static_cast<int64_t>(config.size())}});
        const fs::path path = folder.path() / "m.h5";
        StoreWriter writer(path, IfThere::kReplace, kStoredModel, sets, Json{{kStoredBlocks, blocks}}.dump());
        for (size_t i = 0; i < sets.size(); ++i) {
            const std::vector<std::byte> zeros(sets[i].bytes());
            writer.append(i,
                          i + 1 == sets.size() ? std::as_bytes(std::span(config)) : std::span<const std::byte>(zeros));
        }
        writer.publish();
        return path;
    };
    Json types = Json::object();
    for (const Conversion::Tensor& t : conversion.tensors()) {
        if (is_quantised(t.written)) types[t.name] = name_of(t.written);
    }
    EXPECT_EQ(open_model(written(types, 0))->info(down).type, StoredType::kQ4_0);
    for (const Json& wrong : {Json("Q9_9"), Json("F16"), Json(3)}) {
        Json changed = types;
        changed[down] = wrong;
        expect_error([&] { open_model(written(changed, 0)); }, Exit::kData, {"m.h5", down, "not known"});
    }
    expect_error([&] { open_model(written(Json::array(), 0)); }, Exit::kData, {"'blocks'", "types of tensors by name"});
    for (const int64_t more : {1, 18, -18, -1}) {
        expect_error([&] { open_model(written(types, more)); }, Exit::kData, {down});
    }
    for (const size_t dims : {1u, 3u}) {
        std::vector<StoreSet> sets = {{"files/config.json", DType::kU8, {2}},
                                      {down + "/0", DType::kU8, {64, 18}},
                                      {down + "/1", DType::kU8, std::vector<int64_t>(dims, 18)}};
        const std::string config = conversion.config_json();
        sets[0].shape = {static_cast<int64_t>(config.size())};
        const fs::path path = folder.path() / "parts.h5";
        StoreWriter writer(path, IfThere::kReplace, kStoredModel, sets, Json{{kStoredBlocks, types}}.dump());
        for (size_t i = 0; i < sets.size(); ++i) {
            const std::vector<std::byte> zeros(sets[i].bytes());
            writer.append(i, i == 0 ? std::as_bytes(std::span(config)) : std::span<const std::byte>(zeros));
        }
        writer.publish();
        expect_error([&] { open_model(path); }, Exit::kData, {down});
    }
    Json another = types;
    another[down] = "Q8_0";
    expect_error([&] { open_model(written(another, 0)); }, Exit::kData, {down});
    Json vector = types;
    vector[norm] = "Q4_0";
    expect_error([&] { open_model(written(vector, 0)); }, Exit::kData, {norm});
    Json missing = types;
    missing.erase(down);
    expect_error([&] { open_model(written(missing, 0)); }, Exit::kData, {down, "u8"});
}

// A matrix of 24 MB: blocks are read by several threads.
TEST(ModelStore, HasWeightsOfManyBlocks) {
    constexpr int64_t kVocab = 2999, kDim = 2048;
    const TempFolder folder;
    folder.write("config.json", fmt::format(R"({{"model_type": "llama", "num_hidden_layers": 1, "hidden_size": {},
        "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 32, "vocab_size": {},
        "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "tie_word_embeddings": true}})",
                                            kDim, kVocab));
    MadeTensors tensors;
    float next = 0;
    const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
        int64_t n = 1;
        for (const int64_t d : shape) n *= d;
        std::vector<float> values(static_cast<size_t>(n));
        for (float& v : values) v = next++ / 65536;
        tensors[name] = {"F32", shape, std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4)};
    };
    add("model.embed_tokens.weight", {kVocab, kDim});
    for (const char* n : {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"})
        add(n + std::string(".weight"), {kDim});
    for (const char* n : {"q", "k", "v"}) add(fmt::format("model.layers.0.self_attn.{}_proj.weight", n), {8, kDim});
    add("model.layers.0.self_attn.o_proj.weight", {kDim, 8});
    for (const char* n : {"gate", "up"}) add(fmt::format("model.layers.0.mlp.{}_proj.weight", n), {32, kDim});
    add("model.layers.0.mlp.down_proj.weight", {kDim, 32});
    folder.write("model.safetensors", safetensors(tensors));
    const fs::path path = store_of(folder.path(), folder.path() / "m.h5");
    expect_same(*open_model(path), *open_model(folder.path()));

    // One bit in the middle of the matrix is flipped.
    std::string file = slurp(path);
    const auto at = said_of(file, "model.embed_tokens.weight").at("offset").get<size_t>() + 10'000'003;
    file[at] = static_cast<char>(file[at] ^ 4);
    const auto damaged = open_store_model(memory_source("m.h5", bytes_of(file)));
    expect_error([&] { read_all(*damaged, "model.embed_tokens.weight"); }, Exit::kData,
                 {"m.h5: rows 1152 to 1279 of 'model.embed_tokens.weight'"});
    EXPECT_EQ(read_all(*damaged, "model.norm.weight"), read_all(*open_model(path), "model.norm.weight"));
}

TEST(ModelStore, HoldsWhatAGgufFileSays) {
    for (const char* name : {"f32", "bf16", "q4_k_m", "llama3", "yarn", "linear", "head_dim"}) {
        SCOPED_TRACE(name);
        const TempFolder folder;
        const fs::path gguf = kData / "gguf" / (std::string(name) + ".gguf");
        const std::unique_ptr<WeightSource> wanted = open_model(gguf),
                                            got = open_model(store_of(gguf, folder.path() / "m.h5"));
        EXPECT_EQ(got->config().rope.factors, wanted->config().rope.factors);
        EXPECT_EQ(got->config().context, wanted->config().context);
        EXPECT_EQ(got->config().eos, wanted->config().eos);
        EXPECT_EQ(got->config().rope.scaling, wanted->config().rope.scaling);
        for (const TensorInfo& t : wanted->tensors()) {
            // Quantised values are rounded to f16, as a run with --dtype auto does.
            const DType type = is_quantised(t.type) ? DType::kF16 : DType::kF32;
            std::vector<std::byte> a(static_cast<size_t>(t.shape.elements()) * size_of(type)), b(a.size());
            wanted->read(t.name, 0, 0, HostTensor(a.data(), type, t.shape));
            got->read(t.name, 0, 0, HostTensor(b.data(), type, t.shape));
            EXPECT_EQ(a, b) << t.name;
        }
    }
}

TEST(ModelStore, HoldsTheTokenizer) {
    const TempFolder folder;
    const auto same = [&](const fs::path& model, const fs::path& tokenizer) {
        SCOPED_TRACE(tokenizer.string());
        const std::unique_ptr<Tokenizer> wanted = load_tokenizer(tokenizer),
                                         got = load_tokenizer(store_of(model, folder.path() / "m.h5"));
        EXPECT_EQ(got->vocab(), wanted->vocab());
        EXPECT_EQ(got->eos_ids(), wanted->eos_ids());
        for (const char* text : {"In the beginning", " a  b\n", "42 + 17 = 59, isn't it? \xc3\xa9"}) {
            for (const bool special : {false, true})
                EXPECT_EQ(got->encode(text, special), wanted->encode(text, special));
        }
    };
    same(kData / "models" / "kjv-target", kData / "models" / "kjv-target");
    for (const char* name : {"gpt2", "llama2"}) {
        const TempFolder model;
        write_small_model(model, small_tensors());
        for (const auto& file : fs::directory_iterator(kData / "tokenizers" / name)) {
            if (file.path().filename() != "config.json") fs::copy(file.path(), model.path());
        }
        same(model.path(), model.path());
    }
    const TempFolder none;
    write_small_model(none, small_tensors());
    const fs::path path = store_of(none.path(), none.path() / "m.h5");
    expect_error([&] { load_tokenizer(path); }, Exit::kNoInput, {"m.h5: holds no tokenizer"});
}

TEST(ModelStore, GgufMetadataAloneIsTheTokenizer) {
    const TempFolder folder;
    const fs::path from = kData / "tokenizers" / "gguf-smollm" / "tokenizer.gguf";
    const auto alone = folder.write("alone.gguf", gguf_metadata_alone(*open_file(from)));
    EXPECT_EQ(load_tokenizer(alone)->encode("Hello, you 3 there", true),
              load_tokenizer(from)->encode("Hello, you 3 there", true));
}

TEST(ModelStore, ChangesTypesAndMaps) {
    const TempFolder folder;
    const fs::path model = kData / "tiny" / "plain-f32";
    const auto half = open_model(store_of(model, folder.path() / "a.h5", 1, {.dtype = DType::kF16}));
    const auto wanted = open_model(model);
    EXPECT_EQ(half->natural_dtype(), DType::kF16);
    for (const TensorInfo& t : wanted->tensors()) {
        EXPECT_EQ(half->info(t.name).type, t.shape.rank() == 1 ? StoredType::kF32 : StoredType::kF16);
        std::vector<uint16_t> a(static_cast<size_t>(t.shape.elements())), b(a.size());
        wanted->read(t.name, 0, 0, HostTensor(a.data(), DType::kF16, t.shape));
        half->read(t.name, 0, 0, HostTensor(b.data(), DType::kF16, t.shape));
        EXPECT_EQ(a, b) << t.name;
    }
    const int64_t layers = wanted->config().n_layers;
    std::string map = "0";
    for (int64_t l = 1; l < layers; ++l) map += "_0";
    const auto mapped = open_model(store_of(model, folder.path() / "b.h5", 1, {.layer_map = map}));
    EXPECT_EQ(mapped->config().layer_map.text(), map);
    // A store made from a store.
    expect_same(*open_model(store_of(folder.path() / "b.h5", folder.path() / "c.h5", 2)), *mapped);
}

/// A store of the small model's sets, changed by `change`.
std::string changed(const std::function<void(std::vector<StoreSet>&)>& change) {
    const TempFolder folder;
    std::vector<StoreSet> sets;
    const std::string config = small_config();
    for (const auto& [name, t] : small_tensors()) sets.push_back({name, DType::kF32, t.shape});
    sets.push_back({"files/config.json", DType::kU8, {static_cast<int64_t>(config.size())}});
    change(sets);
    const fs::path path = folder.path() / "m.h5";
    StoreWriter writer(path, IfThere::kRefuse, kStoredModel, sets, "{}");
    for (size_t i = 0; i < sets.size(); ++i) {
        std::vector<std::byte> bytes(sets[i].bytes());
        if (sets[i].name == "files/config.json") std::memcpy(bytes.data(), config.data(), config.size());
        writer.append(i, bytes);
    }
    writer.publish();
    return slurp(path);
}

TEST(ModelStore, RefusesWhatDoesNotFit) {
    const std::string o = "model.layers.0.self_attn.o_proj.weight";
    const auto refused = [](const std::vector<std::string>& words,
                            const std::function<void(std::vector<StoreSet>&)>& change) {
        const std::string bytes = changed(change);
        expect_error([&] { open_store_model(memory_source("m.h5", bytes_of(bytes))); }, Exit::kData, words);
    };
    const auto find = [](std::vector<StoreSet>& sets, const std::string& name) -> StoreSet& {
        return *std::ranges::find(sets, name, &StoreSet::name);
    };
    const std::string fine = changed([](auto&) {});
    EXPECT_EQ(open_store_model(memory_source("m.h5", bytes_of(fine)))->tensors().size(), small_tensors().size());
    const auto split = [&](std::vector<StoreSet>& sets, const std::vector<StoreSet>& to) {
        std::erase_if(sets, [&](const StoreSet& s) { return s.name == o; });
        sets.insert(sets.end(), to.begin(), to.end());
    };
    const std::string parts = changed([&](auto& s) {
        split(s, {{o + "/0", DType::kF32, {16, 5}}, {o + "/1", DType::kF32, {16, 11}}});
    });
    EXPECT_EQ(open_store_model(memory_source("m.h5", bytes_of(parts)))->tensors().size(), small_tensors().size());

    refused({"model.norm.weight: [16] / missing"},
            [](auto& s) { std::erase_if(s, [](const StoreSet& x) { return x.name == "model.norm.weight"; }); });
    refused({o + ": [16, 16] / [16, 15]"}, [&](auto& s) { find(s, o).shape = {16, 15}; });
    refused({o, "supported type", "i32"}, [&](auto& s) { find(s, o).type = DType::kI32; });
    refused({"model.extra: nothing"}, [&](auto& s) { s.push_back({"model.extra", DType::kF32, {1}}); });
    refused({o, "2 blocks of columns"}, [&](auto& s) {
        split(s, {{o + "/0", DType::kF32, {16, 5}}, {o + "/1", DType::kF32, {16, 10}}});
    });
    refused({o, "2 blocks of columns"}, [&](auto& s) {
        split(s, {{o + "/0", DType::kF32, {16, 8}}, {o + "/1", DType::kF16, {16, 8}}});
    });
    refused({o, "2 blocks of columns"}, [&](auto& s) {
        split(s, {{o + "/0", DType::kF32, {16, 8}}, {o + "/1", DType::kF32, {15, 8}}});
    });
    refused({o, "missing"}, [&](auto& s) { split(s, {{o + "/1", DType::kF32, {16, 16}}}); });
    refused({"holds no config.json"}, [](auto& s) { std::erase_if(s, [](auto& x) { return x.name[0] == 'f'; }); });
    refused({"'rope.factors' has 3 numbers, 4 "}, [](auto& s) { s.push_back({kRopeFactors, DType::kF32, {3}}); });
    refused({"m.h5"}, [](auto& s) { s.push_back({kRopeFactors, DType::kF32, {4}}); });  // zeros are refused
}

TEST(ModelStore, RefusesOtherStores) {
    const TempFolder folder;
    const fs::path path = folder.path() / "s.h5";
    StoreWriter writer(path, IfThere::kRefuse, "kv snapshot", {}, "{}");
    writer.publish();
    expect_error([&] { open_model(path); }, Exit::kData, {"kv snapshot", "set of weights"});
    expect_error([&] { load_tokenizer(path); }, Exit::kData, {"kv snapshot"});
    expect_error([&] { open_model(folder.write("x.h5", "\x89HDF\r\n\x1a\n")); }, Exit::kData, {"x.h5", "model folder"});
}

TEST(ModelStore, RefusesWhatCannotBeWritten) {
    const TempFolder folder;
    MadeTensors tensors = small_tensors();
    const float big = 1e6F;
    std::memcpy(tensors["model.layers.0.mlp.down_proj.weight"].data.data() + 4 * 53, &big, 4);
    write_small_model(folder, tensors);
    const fs::path path = store_of(folder.path(), folder.path() / "m.h5");
    std::vector<uint16_t> out(16 * 24);
    expect_error(
        [&] {
            open_model(path)->read("model.layers.0.mlp.down_proj.weight", 0, 0,
                                   HostTensor(out.data(), DType::kF16, {16, 24}));
        },
        Exit::kConfig, {"'model.layers.0.mlp.down_proj.weight'", "f16 at element 53"});
    expect_error([&] { store_of(folder.path(), folder.path() / "h.h5", 1, {.dtype = DType::kF16}); }, Exit::kConfig,
                 {"at element 53"});
    EXPECT_FALSE(fs::exists(folder.path() / "h.h5"));
    expect_error([&] { store_of(folder.path(), folder.path() / "h.h5", 3); }, Exit::kConfig, {"3"});
}

}  // namespace
}  // namespace trireme::test
