// Coded KV tiles: a byte for types and shape, then bytes that are repeated to the size of a tile. As a coded tile they
// are decoded, whatever they are; as a plain tile they are encoded, and come back.

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/kv.h"
#include "kernels/tile_code.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

std::vector<char> repeated(const uint8_t* data, size_t size, size_t bytes) {
    std::vector<char> all(bytes);
    for (size_t at = 0; at < bytes; at += size) std::memcpy(all.data() + at, data, std::min(size, bytes - at));
    return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    constexpr int64_t kDims[] = {4, 20, 64, 256};
    const auto type = [&](int bit) { return (data[0] >> bit & 1) != 0 ? DType::kF16 : DType::kBF16; };
    const KvLayout layout{
        .kv_heads = 1 + (data[0] >> 4 & 1), .head_dim = kDims[data[0] >> 2 & 3], .k_type = type(0), .v_type = type(1)};
    const char* backend = (data[0] >> 5 & 1) != 0 ? "cuda" : "cpu";
    const TileCode code = tile_code(layout);
    const std::vector<char> damaged = repeated(data + 1, size - 1, static_cast<size_t>(code.bytes)),
                            plain = repeated(data + 1, size - 1, layout.tile_bytes());
    std::vector<char> decoded(layout.tile_bytes()), coded(static_cast<size_t>(code.bytes));
    decode_tile(code, backend, damaged.data(), decoded.data());
    const uint32_t escapes = encode_tile(code, backend, plain.data(), coded.data());
    decode_tile(code, backend, coded.data(), decoded.data());
    fuzz::expect(escapes > static_cast<uint32_t>(code.capacity) || decoded == plain, "a coded tile differs");
    return 0;
}
