#include "kernels/tile_coder.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) {
    return (n + to - 1) / to * to;
}

// One element in 28 may be an escape. Measured on three models and three kinds of text: 1.8 to 2.3 % of a tile's
// elements are on average, 3.0 % at most. bf16 is then 1.41 times smaller.
constexpr int64_t kElementsPerEscape = 28;

class CpuTileCoder final : public TileCoder {
  public:
    CpuTileCoder(Stream& stream, const KvLayout& layout) : TileCoder(layout), stream_(stream) {}

    void encode(char* coded, uint32_t* counts, const char* plain, int64_t n) override {
        stream_.call_host("kv_encode", moved(n), [this, coded, counts, plain, n] {
            for (int64_t i = 0; i < n; ++i) {
                counts[i] = encode_tile(code(), "cpu", plain + static_cast<size_t>(i) * plain_bytes(),
                                        coded + i * code().bytes);
            }
        });
    }
    void decode(char* plain, const char* coded, int64_t n) override {
        stream_.call_host("kv_decode", moved(n), [this, plain, coded, n] {
            for (int64_t i = 0; i < n; ++i) {
                decode_tile(code(), "cpu", coded + i * code().bytes, plain + static_cast<size_t>(i) * plain_bytes());
            }
        });
    }

  private:
    Stream& stream_;
};

}  // namespace

bool has_tile_code(const KvLayout& layout) {
    const auto is_16_bit = [](DType t) { return t == DType::kF16 || t == DType::kBF16; };
    return is_16_bit(layout.k_type) && is_16_bit(layout.v_type) && layout.head_dim % 4 == 0 &&
           layout.head_dim <= kCodedDim;
}

TileCode tile_code(const KvLayout& layout) {
    check(has_tile_code(layout), "tile_code: heads of {} elements of {} and {}", layout.head_dim,
          name_of(layout.k_type), name_of(layout.v_type));
    TileCode c{.heads = layout.kv_heads,
               .dim = layout.head_dim,
               .k_f16 = layout.k_type == DType::kF16,
               .v_f16 = layout.v_type == DType::kF16};
    const int64_t parts = 2 * c.heads, n = kTileTokens * c.dim;
    c.blocks = 4 * parts;
    c.bases = c.blocks + 2 * parts * kTokenBlocks;
    c.data = round_up(c.bases + parts * c.dim, 64);
    c.k_part = n + n / 8 * (c.k_f16 ? 6 : 3);
    c.v_part = n + n / 8 * (c.v_f16 ? 6 : 3);
    c.escapes = c.data + c.heads * (c.k_part + c.v_part);
    c.bytes = round_up(c.escapes + parts * n / kElementsPerEscape, 64);
    c.capacity = c.bytes - c.escapes;
    return c;
}

Registry<TileCoderMaker>& tile_coder_makers() {
    static Registry<TileCoderMaker> makers;
    return makers;
}

std::unique_ptr<TileCoder> make_tile_coder(Device& device, Stream& stream, const KvLayout& layout) {
    const TileCoderMaker maker = tile_coder_makers().find(device.backend());
    if (maker != nullptr) return maker(device, stream, layout);
    check(device.backend() == "cpu", "make_tile_coder: no coder for device {}", device.name());
    return std::make_unique<CpuTileCoder>(stream, layout);
}

}  // namespace trireme
