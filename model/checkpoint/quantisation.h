#pragma once
/// Quantisation: how matrices of a safetensors checkpoint are quantised, by 'quantization_config' in config.json.

#include <cstdint>
#include <string>
#include <string_view>

#include "model/files/json.h"

namespace trireme {

enum class PackedAs : uint8_t {
    kNone,
    kGptq,        // qweight i32 [in / 8, out], qzeros i32 [groups, out / 8], scales [groups, out], g_idx i32 [in]
    kAwq,         // qweight i32 [in, out / 8], qzeros i32 [groups, out / 8], scales [groups, out]
    kCompressed,  // weight_packed i32 [out, in / 8], weight_scale [out, groups], weight_zero_point i32 [out / 8,
                  // groups]
    kFP8          // weight e4m3 [out, in], weight_scale or weight_scale_inv: one number, one per row, or one per block
};

struct Quantisation {
    PackedAs as = PackedAs::kNone;
    int64_t group = 0;        // columns that share a scale; 0: all columns of a row
    bool zero_points = true;  // kCompressed; otherwise the zero point is 8
    int zero_shift = 0;       // added to stored zero points: GPTQ's first format stores them minus one, so 15 means 16
    bool reordered = false;   // kGptq: 'desc_act'. The order itself is in g_idx, and is often none.
    int64_t block_rows = 0, block_cols = 0;  // kFP8: the block of a scale; 0: scales are not for blocks
};

/// Reads the key of a config.json. Without the key: kNone. Errors: Exit::kData for a method, a format or an option that
/// is not supported, by its name.
Quantisation read_quantisation(const Json& config, std::string_view what);

}  // namespace trireme
