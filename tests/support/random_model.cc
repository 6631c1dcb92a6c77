#include "tests/support/random_model.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "model/checkpoint/expected_tensors.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

const RandomShape kShapes[] = {
    {"tiny", 2, 128, 4, 2, 32, 256, 512, 8192, 1e4, true},
    {"smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 131072, 1e5, true},
    {"llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 131072, 1e4, false},
    {"llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 5e5, false},
};
constexpr size_t kNormals = size_t{1} << 20;
constexpr size_t kLongestRow = size_t{1} << 17;

uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// Rows of a tensor are slices of `values`, which are rounded already: 13 GB are copied in seconds.
template <class T>
void fill(const Matrix<T>& out, const std::vector<T>& values, uint64_t tensor, int64_t row0, int64_t col0) {
    for (int64_t r = 0; r < out.rows; ++r) {
        const T* from = values.data() + mixed((tensor << 32) + static_cast<uint64_t>(row0 + r)) % kNormals + col0;
        std::copy_n(from, out.cols, out.row(r));
    }
}

}  // namespace

const RandomShape& known_shape(const std::string& name) {
    const auto* s =
        std::find_if(std::begin(kShapes), std::end(kShapes), [&](const RandomShape& k) { return k.name == name; });
    require(s != std::end(kShapes), Exit::kUsage, "no shape '{}': want tiny, smollm2-135m, llama-2-7b or llama-3-8b",
            name);
    return *s;
}

RandomModel::RandomModel(const RandomShape& shape) : normal_(kNormals + kLongestRow) {
    config_.family = &architecture_of("llama", "random");
    config_.name = shape.name;
    config_.n_layers = shape.layers;
    config_.dim = shape.dim;
    config_.n_heads = shape.heads;
    config_.n_kv_heads = shape.kv_heads;
    config_.head_dim = shape.head_dim;
    config_.ffn_dim = shape.ffn;
    config_.vocab = shape.vocab;
    config_.context = shape.context;
    config_.norm_eps = 1e-5;
    config_.tied_embeddings = shape.tied;
    config_.rope.theta = shape.theta;
    config_.rope.original_context = shape.context;
    config_.layer_map = shape.layer_map.empty() ? LayerMap::identity(shape.layers)
                                                : LayerMap::parse(shape.layer_map, shape.layers, shape.name);
    config_.no_diagonal = shape.no_diagonal;
    validate(config_, shape.name);
    natural_dtype_ = DType::kF16;
    for (const ExpectedTensor& t : expected_tensors(config_)) add_tensor({t.name, StoredType::kF16, t.shape});
    std::mt19937 bits(1);
    std::normal_distribution<float> normal;
    for (float& x : normal_) x = normal(bits);
}

void RandomModel::do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const {
    const Shape& shape = tensors()[tensor].shape;
    if (shape.rank() == 1) {
        for (int64_t i = 0; i < out.rows(); ++i) static_cast<float*>(out.data())[i] = 1;
        check(out.dtype() == DType::kF32, "norms are read as f32");
        return;
    }
    const float scale = 1 / std::sqrt(static_cast<float>(shape[1]));
    const auto read = [&](auto type) {
        using T = decltype(type);
        fill(out.as<T>(), scaled<T>(scale), tensor, row0, col0);
    };
    if (out.dtype() == DType::kF16) return read(f16());
    if (out.dtype() == DType::kBF16) return read(bf16());
    read(float());
}

template <class T>
const std::vector<T>& RandomModel::scaled(float scale) const {
    const std::lock_guard lock(mutex_);
    std::vector<T>& values = std::get<std::map<float, std::vector<T>>>(scaled_)[scale];
    if (values.empty()) {
        values.reserve(normal_.size());
        for (const float x : normal_) values.push_back(T(x * scale));
    }
    return values;
}

}  // namespace trireme::test
