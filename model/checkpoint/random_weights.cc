#include "model/checkpoint/random_weights.h"

#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include <xxhash.h>

#include "model/checkpoint/expected_tensors.h"
#include "model/files/convert.h"
#include "runtime/random.h"

namespace trireme {
namespace {

constexpr double kDeviation = 0.02;

/// Fills `out` with normal numbers of a row, from column `col0` on. Each four numbers have one counter.
void fill(std::span<float> out, uint64_t name, uint64_t seed, int64_t row, int64_t col0) {
    const std::array<uint32_t, 2> key = {static_cast<uint32_t>(seed ^ name),
                                         static_cast<uint32_t>((seed ^ name) >> 32)};
    const auto unit = [](uint32_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-32; };  // in (0, 1)
    std::array<double, 4> four = {};
    int64_t have = -1;
    for (size_t i = 0; i < out.size(); ++i) {
        const int64_t column = col0 + static_cast<int64_t>(i), group = column / 4;
        if (group != have) {
            const auto low = static_cast<uint64_t>(row), high = static_cast<uint64_t>(group);
            const std::array<uint32_t, 4> bits =
                philox4x32({static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                            static_cast<uint32_t>(high >> 32)},
                           key);
            for (size_t pair = 0; pair < 4; pair += 2) {  // Box-Muller
                const double length = kDeviation * std::sqrt(-2 * std::log(unit(bits[pair])));
                const double angle = 2 * std::numbers::pi * unit(bits[pair + 1]);
                four[pair] = length * std::cos(angle);
                four[pair + 1] = length * std::sin(angle);
            }
            have = group;
        }
        out[i] = static_cast<float>(four[static_cast<size_t>(column % 4)]);
    }
}

class RandomWeights final : public WeightSource {
  public:
    RandomWeights(const LlamaConfig& config, uint64_t seed) : seed_(seed) {
        config_ = config;
        natural_dtype_ = DType::kBF16;
        for (const ExpectedTensor& t : expected_tensors(config_)) {
            add_tensor({t.name, StoredType::kBF16, t.shape});
        }
    }

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        const TensorInfo& t = tensors()[tensor];
        if (t.shape.rank() == 1) {
            const std::vector<float> same(static_cast<size_t>(out.rows()), t.name.ends_with(".bias") ? 0.0F : 1.0F);
            return convert(DType::kF32, same.data(), out.dtype(), out.data(), out.rows());
        }
        const uint64_t name = XXH3_64bits(t.name.data(), t.name.size());
        std::vector<float> row(static_cast<size_t>(out.cols()));
        for (int64_t r = 0; r < out.rows(); ++r) {
            fill(row, name, seed_, row0 + r, col0);
            convert(DType::kF32, row.data(), out.dtype(), out.slice_rows(r, 1).data(), out.cols());
        }
    }

    uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(const LlamaConfig& config, uint64_t seed) {
    return std::make_unique<RandomWeights>(config, seed);
}

}  // namespace trireme
