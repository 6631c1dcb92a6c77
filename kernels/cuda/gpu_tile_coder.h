#pragma once
/// GpuTileCoder: the GPU backend's TileCoder over a Launcher (gpu_kernels.h).

#include <utility>

#include "kernels/cuda/tile_code.h"
#include "kernels/tile_coder.h"

namespace trireme::gpu {

template <class Launcher>
class GpuTileCoder final : public TileCoder {
  public:
    GpuTileCoder(Launcher launcher, const KvLayout& layout) : TileCoder(layout), launcher_(std::move(launcher)) {}

    void encode(char* coded, uint32_t* counts, const char* plain, int64_t n) override {
        const Grid grid{n, 2 * code().heads};
        launcher_.template launch<ChooseBases>("kv_encode", static_cast<size_t>(n) * plain_bytes(), grid,
                                               {code(), plain, coded});
        launcher_.template launch<WriteCodes>("kv_encode", moved(n), grid, {code(), plain, coded, counts});
    }
    void decode(char* plain, const char* coded, int64_t n) override {
        launcher_.template launch<DecodeTiles>("kv_decode", moved(n), {n, 2 * code().heads}, {code(), plain, coded});
    }

  private:
    Launcher launcher_;
};

}  // namespace trireme::gpu
