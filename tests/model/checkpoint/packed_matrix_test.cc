// int4 and FP8 matrices of safetensors. Their values are in the goldens (tests/model/llama/golden_test.cc).

#include "model/checkpoint/packed_matrix.h"

#include <cstring>

#include <gtest/gtest.h>

#include "model/files/safetensors.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

const fs::path kPacked = fs::path(TRIREME_TEST_DATA) / "packed";
const std::string kUp = "model.layers.0.mlp.up_proj";  // [96, 64]

/// The tensors of one of the models.
MadeTensors tensors_of(const std::string& model) {
    const std::string bytes = slurp(kPacked / model / "model.safetensors");
    const auto source = memory_source("m", bytes_of(bytes));
    MadeTensors made;
    for (const auto& [name, e] : read_safetensors_header(*source)) {
        made[name] = {e.dtype, {e.dims.begin(), e.dims.end()}, bytes.substr(e.offset, e.bytes)};
    }
    return made;
}

/// Opens one of the models with changed tensors.
std::unique_ptr<WeightSource> open_with(const TempFolder& folder, const std::string& model, const MadeTensors& made) {
    folder.write("config.json", slurp(kPacked / model / "config.json"));
    folder.write("model.safetensors", safetensors(made));
    return open_model(folder.path());
}

void expect_refused(const std::string& model, const std::function<void(MadeTensors&)>& change,
                    const std::vector<std::string>& says) {
    const TempFolder folder;
    MadeTensors made = tensors_of(model);
    change(made);
    expect_error([&] { open_with(folder, model, made); }, Exit::kData, says);
}

TEST(PackedMatrix, SlicesAreThoseOfTheWholeMatrix) {
    for (const char* model : {"gptq", "gptq_v2", "awq", "compressed", "compressed_zeros", "fp8_tensor", "fp8_block"}) {
        const auto source = open_model(kPacked / model);
        const std::string name = kUp + ".weight";
        const TensorInfo& info = source->info(name);
        EXPECT_TRUE(is_quantised(info.type)) << model;
        const std::vector<float> all = read_f32(*source, name, 0, 0, {96, 64});
        for (const auto& [row, col, rows, cols] :
             {std::array<int64_t, 4>{0, 0, 1, 64}, {5, 3, 7, 40}, {95, 63, 1, 1}, {40, 32, 20, 32}}) {
            const std::vector<float> some = read_f32(*source, name, row, col, {rows, cols});
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t c = 0; c < cols; ++c) {
                    ASSERT_EQ(some[static_cast<size_t>(r * cols + c)],
                              all[static_cast<size_t>((row + r) * 64 + col + c)])
                        << model << " " << row + r << " " << col + c;
                }
            }
        }
    }
}

// A worked example: GPTQ's words hold eight columns of a row, AWQ's eight rows in the order 0 2 4 6 1 3 5 7.
TEST(PackedMatrix, HasTheNibblesOfTheFormats) {
    const TempFolder one, two;
    MadeTensors gptq = tensors_of("gptq"), awq = tensors_of("awq");
    for (MadeTensors* made : {&gptq, &awq}) {
        std::ranges::fill((*made)[kUp + ".qweight"].data, '\0');
        std::ranges::fill((*made)[kUp + ".qzeros"].data, '\0');
        std::string& scales = (*made)[kUp + ".scales"].data;
        for (size_t i = 0; i < scales.size(); i += 2) std::memcpy(&scales[i], "\x00\x3c", 2);  // 1.0
    }
    const uint32_t word = 0x87654321;
    std::memcpy(&gptq[kUp + ".qweight"].data[4 * (96 + 2)], &word, 4);     // row 2, columns 8 to 15
    std::memcpy(&awq[kUp + ".qweight"].data[4 * (12 * 5 + 1)], &word, 4);  // rows 8 to 15, column 5

    const auto g = open_with(one, "gptq", gptq), a = open_with(two, "awq", awq);

    // GPTQ's stored zero point 0 means 1.
    EXPECT_EQ(read_f32(*g, kUp + ".weight", 2, 7, {1, 10}), (std::vector<float>{-1, 0, 1, 2, 3, 4, 5, 6, 7, -1}));
    EXPECT_EQ(read_f32(*a, kUp + ".weight", 7, 5, {10, 1}), (std::vector<float>{0, 1, 5, 2, 6, 3, 7, 4, 8, 0}));
}

TEST(PackedMatrix, RefusesActOrder) {
    const auto permute = [](MadeTensors& made) {
        const int32_t first = 1;
        std::memcpy(made[kUp + ".g_idx"].data.data(), &first, 4);
    };
    expect_refused("gptq", permute, {kUp + ".g_idx", "group 1 for column 0", "act-order"});
    expect_refused("gptq_v2", permute, {"act-order"});
    // Without an order, desc_act cannot be followed; without desc_act, there is none.
    expect_refused("gptq_v2", [](MadeTensors& made) { made.erase(kUp + ".g_idx"); }, {"g_idx: [64] / missing"});
    const TempFolder folder;
    MadeTensors made = tensors_of("gptq");
    made.erase(kUp + ".g_idx");
    EXPECT_NO_THROW(open_with(folder, "gptq", made));
}

TEST(PackedMatrix, RefusesMissingAndWrongParts) {
    expect_refused("awq", [](MadeTensors& made) { made.erase(kUp + ".qzeros"); }, {kUp + ".qzeros: [2, 12] / missing"});
    expect_refused("awq",
                   [](MadeTensors& made) {
                       made[kUp + ".scales"].shape = {96, 2};
                   },
                   {kUp + ".scales: [2, 96] of type F16 or BF16 / [96, 2] F16"});
    expect_refused("compressed", [](MadeTensors& made) { made[kUp + ".weight_packed"].dtype = "U32"; }, {"U32"});
    expect_refused("fp8_channel",
                   [](MadeTensors& made) {
                       made[kUp + ".weight_scale"].shape = {1, 96};
                   },
                   {kUp + ".weight_scale: [96, 1]"});
    expect_refused("fp8_tensor", [](MadeTensors& made) { made[kUp + ".weight"].dtype = "F8_E5M2"; }, {"F8_E5M2"});
    expect_refused("gptq", [](MadeTensors& made) { made["model.layers.0.self_attn.o_proj.bias"].data[1] = 'x'; },
                   {"o_proj.bias"});
    expect_refused("gptq_biases", [](MadeTensors& made) { made["model.layers.1.mlp.up_proj.bias"].data[1] = 'x'; },
                   {"up_proj.bias"});
    expect_refused("gptq_biases", [](MadeTensors& made) { made.erase("model.layers.1.self_attn.q_proj.bias"); },
                   {"q_proj.bias: [64] / missing"});
}

TEST(PackedMatrix, NamesTheMissingOptions) {
    const TempFolder folder;
    Json config = parse_json(slurp(kPacked / "awq" / "config.json"), "c");
    config.erase("quantization_config");
    folder.write("config.json", config.dump());
    folder.write("model.safetensors", safetensors(tensors_of("awq")));
    expect_error([&] { open_model(folder.path()); }, Exit::kData, {"qweight", "no 'quantization_config'"});
}

TEST(PackedMatrix, NamesTheFirstNan) {
    const TempFolder folder;
    MadeTensors made = tensors_of("fp8_block");
    made[kUp + ".weight"].data[3 * 64 + 41] = '\xff';
    const auto source = open_with(folder, "fp8_block", made);
    expect_error([&] { read_f32(*source, kUp + ".weight", 0, 0, {96, 64}); }, Exit::kData, {kUp, "233"});
    std::vector<std::byte> blocks(96 * 2 * 36);
    expect_error([&] { source->read_blocks(kUp + ".weight", 0, 96, 0, blocks); }, Exit::kData, {kUp, "233"});
}

}  // namespace
}  // namespace trireme::test
