// A safetensors file with one int4 or FP8 matrix, module "m", [16, 64], after a byte for the layout: its parts are
// checked, and its blocks and values are read.

#include <cmath>
#include <vector>

#include "model/checkpoint/packed_matrix.h"
#include "model/files/slice_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

constexpr Quantisation kLayouts[] = {
    {.as = PackedAs::kGptq, .group = 32, .zero_shift = 1, .reordered = true},
    {.as = PackedAs::kGptq, .group = 0},
    {.as = PackedAs::kAwq, .group = 64},
    {.as = PackedAs::kCompressed, .group = 32},
    {.as = PackedAs::kCompressed, .group = 0, .zero_points = false},
    {.as = PackedAs::kFP8},
    {.as = PackedAs::kFP8, .block_rows = 12, .block_cols = 32},
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const Quantisation& layout = kLayouts[data[0] % std::size(kLayouts)];
    return fuzz::run([&] {
        const auto file = memory_source("fuzz.safetensors", fuzz::bytes_of(data + 1, size - 1));
        const SafetensorsHeader header = read_safetensors_header(*file);
        const FindPart find = [&](std::string_view part) -> std::optional<PackedPart> {
            const auto it = header.find("m." + std::string(part));
            if (it == header.end()) return {};
            return PackedPart{file.get(), it->second};
        };
        TensorProblems problems;
        const auto blocks = packed_matrix(layout, "m", Shape{16, 64}, find, problems);
        problems.raise("fuzz");
        fuzz::expect(blocks != nullptr, "neither a matrix nor a problem");
        const StoredMatrix m = {
            .source = blocks.get(), .offset = 0, .type = packed_type(layout.as), .rows = 16, .cols = 64};
        std::vector<float> all(16 * 64), some(5 * 20);
        read_slice(m, "m.weight", 11, 37, HostTensor(some.data(), DType::kF32, {5, 20}));
        read_slice(m, "m.weight", 0, 0, HostTensor(all.data(), DType::kF32, {16, 64}));
        for (size_t r = 0; r < 5; ++r) {
            for (size_t c = 0; c < 20; ++c) {
                fuzz::expect(some[r * 20 + c] == all[(11 + r) * 64 + 37 + c], "a slice has other values");
            }
        }
        for (const float v : all) fuzz::expect(std::isfinite(v), "a value that is not finite");
    });
}
