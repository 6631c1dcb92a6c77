#include "model/checkpoint/gguf_model.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/mapped_model.h"
#include "model/checkpoint/padded_model.h"
#include "model/files/dequantise.h"
#include "model/files/gguf_parts.h"
#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kGguf = fs::path(TRIREME_TEST_DATA) / "gguf";

/// Metadata of the small model; `extra` may add keys.
struct SmallGguf {
    std::map<std::string, uint32_t> integers = {
        {"llama.block_count", 1},          {"llama.embedding_length", 16},       {"llama.feed_forward_length", 24},
        {"llama.attention.head_count", 2}, {"llama.attention.head_count_kv", 1}, {"llama.context_length", 32},
        {"llama.vocab_size", 12},
    };
    std::map<std::string, float> floats = {{"llama.attention.layer_norm_rms_epsilon", 1e-5f}};
    std::map<std::string, std::string> texts = {{"general.architecture", "llama"}};
    struct Tensor {
        std::vector<uint64_t> dims;
        uint32_t type = 0;
    };
    std::map<std::string, Tensor> tensors = {
        {"token_embd.weight", {{16, 12}}},        {"output_norm.weight", {{16}}},
        {"blk.0.attn_norm.weight", {{16}}},       {"blk.0.attn_q.weight", {{16, 16}}},
        {"blk.0.attn_k.weight", {{16, 8}}},       {"blk.0.attn_v.weight", {{16, 8}}},
        {"blk.0.attn_output.weight", {{16, 16}}}, {"blk.0.ffn_norm.weight", {{16}}},
        {"blk.0.ffn_gate.weight", {{16, 24}}},    {"blk.0.ffn_up.weight", {{16, 24}}},
        {"blk.0.ffn_down.weight", {{24, 16}}},
    };

    /// Element i of each tensor is i.
    std::string bytes() const {
        GgufBytes b;
        b.head(tensors.size(), integers.size() + floats.size() + texts.size());
        for (const auto& [key, value] : texts) b.text(key, value);
        for (const auto& [key, value] : integers) b.u32(key, value);
        for (const auto& [key, value] : floats) b.f32(key, value);
        std::string data;
        for (const auto& [name, t] : tensors) {
            data.resize((data.size() + 31) / 32 * 32);
            b.tensor(name, t.dims, t.type, data.size());
            uint64_t n = 1;
            for (const uint64_t d : t.dims) n *= d;
            for (uint64_t i = 0; i < n; ++i) {
                const auto x = static_cast<float>(i);
                data.append(reinterpret_cast<const char*>(&x), 4);
            }
            if (t.type == 8) data.resize(data.size() - n * 4 + n / 32 * 34);  // blocks of Q8_0
        }
        return b.pad().append(data).str();
    }
};

class Opened {
  public:
    explicit Opened(std::string bytes)
        : bytes_(std::move(bytes)), model_(open_gguf_model(memory_source("x.gguf", bytes_of(bytes_)))) {}
    const WeightSource* operator->() const { return model_.get(); }
    const WeightSource& operator*() const { return *model_; }

  private:
    std::string bytes_;
    std::unique_ptr<WeightSource> model_;
};

void expect_refused(const SmallGguf& gguf, const std::vector<std::string>& parts) {
    expect_error([&] { Opened model(gguf.bytes()); }, Exit::kData, parts);
}

TEST(GgufModel, ReadsTheSmallModel) {
    SmallGguf gguf;
    gguf.floats["llama.rope.freq_base"] = 5000;
    gguf.texts["general.name"] = "small";
    gguf.integers["tokenizer.ggml.bos_token_id"] = 1;
    gguf.integers["tokenizer.ggml.eos_token_id"] = 2;
    gguf.integers["tokenizer.ggml.eot_token_id"] = 3;
    const Opened model(gguf.bytes());

    const LlamaConfig& c = model->config();
    EXPECT_EQ(c.name, "small");
    EXPECT_EQ(c.n_layers, 1);
    EXPECT_EQ(c.dim, 16);
    EXPECT_EQ(c.head_dim, 8);
    EXPECT_EQ(c.n_kv_heads, 1);
    EXPECT_EQ(c.ffn_dim, 24);
    EXPECT_EQ(c.vocab, 12);
    EXPECT_EQ(c.context, 32);
    EXPECT_EQ(c.rope.theta, 5000);
    EXPECT_TRUE(c.tied_embeddings);
    EXPECT_EQ(c.eos, (std::vector<int32_t>{2, 3}));
    EXPECT_EQ(model->natural_dtype(), DType::kF32);
    EXPECT_EQ(model->info("model.layers.0.mlp.down_proj.weight").shape, (Shape{16, 24}));
    EXPECT_EQ(read_f32(*model, "model.layers.0.mlp.down_proj.weight", 2, 3, {1, 2}), (std::vector<float>{51, 52}));
    EXPECT_EQ(read_all(*model, "model.norm.weight").back(), 15);
}

TEST(GgufModel, QueryAndKeyRowsAreInRotateHalfOrder) {
    const Opened model(SmallGguf().bytes());
    const std::vector<int64_t> order{0, 2, 4, 6, 1, 3, 5, 7};
    const auto q = read_f32(*model, "model.layers.0.self_attn.q_proj.weight", 0, 0, {16, 1});
    const auto k = read_f32(*model, "model.layers.0.self_attn.k_proj.weight", 0, 0, {8, 1});
    const auto v = read_f32(*model, "model.layers.0.self_attn.v_proj.weight", 0, 0, {8, 1});
    for (size_t r = 0; r < 8; ++r) {
        EXPECT_EQ(q[r], static_cast<float>(16 * order[r]));
        EXPECT_EQ(q[8 + r], static_cast<float>(16 * (8 + order[r])));
        EXPECT_EQ(k[r], static_cast<float>(16 * order[r]));
        EXPECT_EQ(v[r], static_cast<float>(16 * r));
    }
}

TEST(GgufModel, AnOutputMatrixUntiesTheEmbeddings) {
    SmallGguf gguf;
    gguf.tensors["output.weight"] = {{16, 12}};
    const Opened model(gguf.bytes());
    EXPECT_FALSE(model->config().tied_embeddings);
    EXPECT_EQ(model->tensors().back().name, "lm_head.weight");
}

TEST(GgufModel, ReadsRopeScalings) {
    SmallGguf gguf;
    gguf.texts["llama.rope.scaling.type"] = "linear";
    gguf.floats["llama.rope.scaling.factor"] = 4;
    EXPECT_EQ(Opened(gguf.bytes())->config().rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(Opened(gguf.bytes())->config().context, 128);
    gguf.texts["llama.rope.scaling.type"] = "yarn";
    gguf.integers["llama.rope.scaling.original_context_length"] = 8;
    gguf.floats["llama.rope.scaling.yarn_beta_fast"] = 16;
    const LlamaConfig yarn = Opened(gguf.bytes())->config();
    EXPECT_EQ(yarn.rope.scaling, RopeScaling::kYarn);
    EXPECT_EQ(yarn.rope.original_context, 8);
    EXPECT_EQ(yarn.rope.beta_fast, 16);
    EXPECT_EQ(yarn.rope.attention_factor, 0);
    EXPECT_EQ(yarn.context, 32);
    gguf.floats["llama.rope.scaling.attn_factor"] = 2;
    EXPECT_NEAR(Opened(gguf.bytes())->config().rope.attention_factor, 2 * (0.1 * std::log(4) + 1), 1e-12);
    gguf.texts["llama.rope.scaling.type"] = "longrope";
    expect_refused(gguf, {"'longrope'", "none, linear, yarn"});

    SmallGguf old;
    old.floats["llama.rope.scale_linear"] = 2;
    EXPECT_EQ(Opened(old.bytes())->config().rope.factor, 2);
    SmallGguf factors;
    factors.tensors["rope_freqs.weight"] = {{4}};
    expect_refused(factors, {"frequency factor is 0"});  // element 0 is 0
    factors.tensors["rope_freqs.weight"] = {{8}};
    expect_refused(factors, {"rope_freqs.weight: [4] / [8]"});
}

TEST(GgufModel, ReadsFrequencyFactors) {
    const auto model = open_model(kGguf / "llama3.gguf");
    const auto& factors = model->config().rope.factors;
    ASSERT_EQ(factors.size(), static_cast<size_t>(model->config().head_dim / 2));
    EXPECT_EQ(factors.front(), 1.0f);
    EXPECT_EQ(factors.back(), 8.0f);
}

// A file as llama-gguf-split --merge writes it.
TEST(GgufModel, ReadsAMergedFile) {
    SmallGguf gguf;
    gguf.integers["split.count"] = 0;
    EXPECT_EQ(Opened(gguf.bytes())->config().context, 32);
}

TEST(GgufModel, ReadsBiasesOfPairedRowsUnlessTheyAreQuantised) {
    SmallGguf gguf;
    gguf.integers["llama.attention.key_length"] = gguf.integers["llama.attention.value_length"] = 16;
    gguf.tensors["blk.0.attn_q.weight"].dims = {16, 32};
    gguf.tensors["blk.0.attn_k.weight"].dims = gguf.tensors["blk.0.attn_v.weight"].dims = {16, 16};
    gguf.tensors["blk.0.attn_output.weight"].dims = {32, 16};
    gguf.tensors["blk.0.attn_q.bias"] = {{32}};
    gguf.tensors["blk.0.attn_k.bias"] = gguf.tensors["blk.0.attn_v.bias"] =
        gguf.tensors["blk.0.attn_output.bias"] = {{16}};
    const Opened model(gguf.bytes());
    std::array<float, 32> q{};
    model->read("model.layers.0.self_attn.q_proj.bias", 0, 0, HostTensor(q.data(), DType::kF32, {32}));
    for (size_t i = 0; i < q.size(); ++i) {  // element i of the file is i: heads of 16 in pairs
        EXPECT_EQ(q[i], static_cast<float>(i / 16 * 16 + i % 8 * 2 + i % 16 / 8)) << i;
    }
    std::array<float, 5> some{};
    model->read("model.layers.0.self_attn.q_proj.bias", 14, 0, HostTensor(some.data(), DType::kF32, {5}));
    EXPECT_TRUE(std::equal(some.begin(), some.end(), q.begin() + 14));
    gguf.tensors["blk.0.attn_q.bias"].type = 8;  // Q8_0
    expect_refused(gguf, {"blk.0.attn_q.bias", "[32] of a supported type", "Q8_0"});
    gguf.tensors["blk.0.attn_q.bias"].type = 0;
    gguf.tensors.erase("blk.0.attn_k.bias");
    expect_refused(gguf, {"blk.0.attn_k.bias", "missing"});
}

TEST(GgufModel, RefusesOtherModels) {
    const auto with = [](const std::function<void(SmallGguf&)>& change, const std::vector<std::string>& parts) {
        SmallGguf gguf;
        change(gguf);
        expect_refused(gguf, parts);
    };
    with([](SmallGguf& g) { g.texts["general.architecture"] = "gemma"; },
         {"'gemma'; supported: llama, qwen2, qwen3, phi3"});
    with([](SmallGguf& g) { g.texts.clear(); }, {"'general.architecture' is missing"});
    with([](SmallGguf& g) { g.integers["split.count"] = 3; }, {"part 1 of 3"});
    with([](SmallGguf& g) { g.integers["llama.expert_count"] = 8; }, {"a mixture of 8 experts"});
    with([](SmallGguf& g) { g.floats["llama.logit_scale"] = 2; }, {"'llama.logit_scale' is set"});
    with([](SmallGguf& g) { g.integers["llama.rope.dimension_count"] = 4; }, {"4 of 8 elements"});
    with([](SmallGguf& g) { g.integers["llama.attention.value_length"] = 16; }, {"values of 16"});
    with([](SmallGguf& g) { g.integers["llama.attention.sliding_window"] = 8; }, {"window of 8"});
    for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length",
                            "llama.attention.head_count", "llama.context_length"}) {
        with([&](SmallGguf& g) { g.integers.erase(key); }, {std::string("'") + key + "' is missing"});
        with([&](SmallGguf& g) { g.integers[key] = 0; }, {"is supported"});
        with([&](SmallGguf& g) { g.integers[key] = 0xffffffffu; }, {"x.gguf"});
    }
    with([](SmallGguf& g) { g.integers["llama.attention.head_count_kv"] = 3; }, {"KV heads"});
}

TEST(GgufModel, EveryWrongTensorIsNamed) {
    for (const auto& [name, tensor] : SmallGguf().tensors) {
        SCOPED_TRACE(name);
        SmallGguf gguf;
        gguf.tensors[name].dims.front() += 1;
        expect_refused(gguf, {"1 tensor ", name + ": "});
        gguf.tensors[name].dims = {4, 4, 4};
        expect_refused(gguf, {"1 tensor ", name + ": ", "[4, 4, 4]"});
        gguf.tensors.erase(name);
        expect_refused(gguf, {"1 tensor ", name + ": ", "missing"});
    }
    SmallGguf gguf;
    gguf.tensors["blk.0.attn_q.bias"] = {{16}};
    gguf.tensors["blk.0.ffn_down.weight"].type = 16;
    expect_refused(gguf, {"2 tensors ", "blk.0.attn_q.bias: nothing / ", "blk.0.ffn_down.weight: ", "IQ2_XXS"});
    SmallGguf old;
    old.tensors["blk.0.attn_rot_embd.weight"] = {{4}};
    EXPECT_NO_THROW(Opened(old.bytes()));
}

TEST(GgufModel, EveryFileOfTheTestDataReadsWholeAndInSlices) {
    int files = 0;
    for (const auto& entry : fs::directory_iterator(kGguf)) {
        if (entry.path().extension() != ".gguf") continue;
        SCOPED_TRACE(entry.path().filename().string());
        const auto model = open_model(entry.path());
        for (const TensorInfo& t : model->tensors()) {
            const auto all = read_all(*model, t.name);
            if (t.shape.rank() == 1) continue;
            const int64_t rows = t.shape[0], cols = t.shape[1];
            const int64_t r0 = rows / 3, c0 = cols / 5, n = rows / 2, w = cols / 2;
            const auto part = read_f32(*model, t.name, r0, c0, {n, w});
            for (int64_t i = 0; i < n * w; ++i) {
                ASSERT_EQ(part[static_cast<size_t>(i)], all[static_cast<size_t>((r0 + i / w) * cols + c0 + i % w)])
                    << t.name;
            }
        }
        ++files;
    }
    EXPECT_GE(files, 11);
}

TEST(GgufModel, NaturalTypeOfQuantisedFilesIsF16) {
    EXPECT_EQ(open_model(kGguf / "q4_0.gguf")->natural_dtype(), DType::kF16);
    EXPECT_EQ(open_model(kGguf / "q6_k.gguf")->natural_dtype(), DType::kF16);
    EXPECT_EQ(open_model(kGguf / "f16.gguf")->natural_dtype(), DType::kF16);
    EXPECT_EQ(open_model(kGguf / "bf16.gguf")->natural_dtype(), DType::kBF16);
    EXPECT_EQ(open_model(kGguf / "f32.gguf")->natural_dtype(), DType::kF32);
}

TEST(GgufModel, TruncationAnywhereIsRefused) {
    const std::string whole = SmallGguf().bytes();
    for (size_t n = 0; n < whole.size(); ++n) {
        try {
            Opened model(whole.substr(0, n));
            FAIL() << "accepted " << n << " of " << whole.size() << " bytes";
        } catch (const Error& e) {
            ASSERT_EQ(e.code(), Exit::kData) << e.what();
        }
    }
}

TEST(GgufModel, EndsOfTextBeyondTheVocabularyAreIgnored) {
    SmallGguf gguf;
    gguf.integers["tokenizer.ggml.eos_token_id"] = 12;
    gguf.integers["tokenizer.ggml.eot_token_id"] = 3;
    EXPECT_EQ(Opened(gguf.bytes())->config().eos, (std::vector<int32_t>{3}));
}

/// The small model in three files, as llama-gguf-split makes them: all metadata in the first one.
class SplitGguf {
  public:
    SplitGguf() {
        const auto names = [&](const SmallGguf& of) {
            std::vector<std::string> all;
            for (const auto& [name, t] : of.tensors) all.push_back(name);
            return all;
        };
        const std::vector<std::string> all = names(whole);
        for (uint32_t i = 0; i < 3; ++i) {
            SmallGguf& part = parts[i];
            if (i > 0) part.integers.clear(), part.floats.clear(), part.texts.clear();
            for (size_t t = 0; t < all.size(); ++t) {
                if (t % 3 != i) part.tensors.erase(all[t]);
            }
            part.integers["split.no"] = i;
            part.integers["split.count"] = 3;
            part.integers["split.tensors.count"] = static_cast<uint32_t>(all.size());
        }
    }
    static std::string name(size_t i) { return fmt::format("a-0000{}-of-00003.gguf", i + 1); }
    fs::path write(const TempFolder& folder) const {
        for (size_t i = 0; i < 3; ++i) folder.write(name(i), parts[i].bytes());
        return folder.path() / name(0);
    }

    SmallGguf whole;
    std::array<SmallGguf, 3> parts;
};

TEST(GgufModel, IsReadFromTheFilesOfASplit) {
    const SplitGguf split;
    const TempFolder folder;
    const fs::path first = split.write(folder);
    const Opened whole(split.whole.bytes());
    for (const fs::path& path : {first, folder.path()}) {
        const auto model = open_model(path);
        ASSERT_EQ(model->tensors().size(), whole->tensors().size());
        for (const TensorInfo& t : model->tensors()) EXPECT_EQ(read_all(*model, t.name), read_all(*whole, t.name));
    }
    EXPECT_TRUE(has_weights(first));
    EXPECT_EQ(open_config(first).dim, 16);

    expect_error([&] { open_model(folder.path() / SplitGguf::name(1)); }, Exit::kData,
                 {"part 2 of 3", "-00001-of-00003.gguf"});
    const fs::path renamed = folder.write("renamed.gguf", split.parts[0].bytes());
    expect_error([&] { open_model(renamed); }, Exit::kData, {"part 1 of 3", "one of 1"});
}

TEST(GgufModel, RefusesFilesThatAreNoSplit) {
    const auto refused = [](const std::function<void(SplitGguf&)>& change, const std::vector<std::string>& parts,
                            Exit code = Exit::kData) {
        SplitGguf split;
        const TempFolder folder;
        change(split);
        const fs::path first = split.write(folder);
        expect_error([&] { open_model(first); }, code, parts);
    };
    refused([](SplitGguf& s) { std::swap(s.parts[1], s.parts[2]); }, {"part 3 of 3", "part 2 of 3"});
    refused([](SplitGguf& s) { s.parts[2].integers["split.count"] = 4; }, {"part 3 of 4", "part 3 of 3"});
    refused([](SplitGguf& s) { s.parts[0].integers["split.count"] = 4; }, {"part 1 of 4", "one of 3"});
    refused([](SplitGguf& s) { s.parts[1].tensors.erase(s.parts[1].tensors.begin()); }, {"'split.tensors.count'"});
    refused([](SplitGguf& s) { s.parts[1].tensors.insert(*s.parts[0].tensors.begin()); }, {"an earlier part"});

    const SplitGguf split;
    const TempFolder folder;
    const fs::path first = split.write(folder);
    fs::remove(folder.path() / SplitGguf::name(2));
    expect_error([&] { open_model(first); }, Exit::kNoInput, {"a-00003-of-00003.gguf"});
}

TEST(GgufModel, AFolderWithOneGgufIsAModel) {
    const TempFolder folder;
    const fs::path file = folder.write("a.gguf", SmallGguf().bytes());
    EXPECT_EQ(find_gguf(folder.path()), file);
    EXPECT_EQ(find_gguf(file), file);
    EXPECT_EQ(open_model(folder.path())->config().dim, 16);
    EXPECT_EQ(open_model(folder.write("sha256-0123", SmallGguf().bytes()))->config().dim, 16);
    folder.write("b.gguf", "");
    expect_error([&] { open_model(folder.path()); }, Exit::kNoInput, {"2 .gguf files (a.gguf, b.gguf"});
    folder.write("config.json", "{}");
    EXPECT_TRUE(find_gguf(folder.path()).empty());
    expect_error([&] { find_gguf(folder.path() / "none"); }, Exit::kNoInput, {"no such file"});
}

TEST(GgufTokenizerReader, ReadsTheVocabulary) {
    const GgufTokenizer t = read_gguf_tokenizer(kGguf / "f32.gguf");
    EXPECT_EQ(t.model, "llama");
    EXPECT_EQ(t.tokens.size(), 320u);
    EXPECT_EQ(t.scores.size(), 320u);
    EXPECT_EQ(t.token_types.size(), 320u);
    EXPECT_TRUE(t.merges.empty());
    EXPECT_EQ(t.tokens[1], "<s>");
    EXPECT_NE(t.what.find("f32.gguf"), std::string::npos);
}

TEST(GgufTokenizerReader, ChecksTypes) {
    SmallGguf gguf;
    expect_error([&] { gguf_tokenizer(read_gguf(*memory_source("x", bytes_of(gguf.bytes()))).metadata); }, Exit::kData,
                 {"'tokenizer.ggml.model' is missing"});
    GgufBytes b;
    b.head(0, 2).text("tokenizer.ggml.model", "llama").u32("tokenizer.ggml.tokens", 3);
    expect_error([&] { gguf_tokenizer(read_gguf(*memory_source("x", bytes_of(b.str()))).metadata); }, Exit::kData,
                 {"'tokenizer.ggml.tokens'", "array of strings"});
    GgufBytes wide;
    wide.head(0, 2).text("tokenizer.ggml.model", "llama").string("tokenizer.ggml.token_type");
    wide.raw(uint32_t{9}).raw(uint32_t{11}).raw(uint64_t{1}).raw(int64_t{1} << 40);
    expect_error([&] { gguf_tokenizer(read_gguf(*memory_source("x", bytes_of(wide.str()))).metadata); }, Exit::kData,
                 {"'tokenizer.ggml.token_type' holds 1099511627776"});
}

// Rows of blocks through every kind of source: as read() gives them, decoded.
TEST(GgufModel, GivesBlocksThroughAVocabularyAndALayerMap) {
    const auto plain = open_model(kGguf / "q4_1.gguf");
    const LlamaConfig& config = plain->config();
    const std::string embedding = "model.embed_tokens.weight", query = "model.layers.0.self_attn.q_proj.weight";
    const auto padded = with_vocabulary(open_model(kGguf / "q4_1.gguf"), config.vocab + 3);
    const auto mapped = with_layer_map(open_model(kGguf / "q4_1.gguf"), "0_0", 0);
    struct Piece {
        const WeightSource& source;
        const std::string& name;
        int64_t row0, rows;
    };
    for (const Piece& p : {Piece{*padded, embedding, config.vocab - 2, 5},
                           {*padded, embedding, config.vocab, 3},
                           {*padded, query, 3, 9},
                           {*mapped, query, 0, 16},
                           {*plain, query, 5, 6}}) {
        SCOPED_TRACE(p.name);
        const int64_t cols = p.source.info(p.name).shape[1], n = p.rows * cols;
        std::vector<std::byte> blocks(static_cast<size_t>(n / 32) * layout_of(StoredType::kQ4_1).bytes);
        std::vector<float> decoded(static_cast<size_t>(n)), values(decoded.size());
        p.source.read_blocks(p.name, p.row0, p.rows, 0, blocks);
        dequantise(StoredType::kQ4_1, blocks.data(), n, decoded.data());
        p.source.read(p.name, p.row0, 0, HostTensor(values.data(), DType::kF32, {p.rows, cols}));
        EXPECT_EQ(decoded, values);
    }
    std::vector<std::byte> some(64);
    expect_error([&] { plain->read_blocks("model.norm.weight", 0, 1, 0, some); }, Exit::kInternal, {"model.norm"});
}

}  // namespace
}  // namespace trireme::test
