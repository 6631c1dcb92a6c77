#include "tests/support/hashed_model.h"

#include <cmath>

#include "model/checkpoint/expected_tensors.h"

namespace trireme::test {
namespace {

constexpr int64_t kDim = 4, kSpread = 8;  // elements of a head, in the formula and here

/// Maps an element of a head of kSpread to an element of the formula's head; -1: one of the zeros in between.
int64_t plain(int64_t i) {
    return i % 2 == 0 ? i / kSpread * kDim + i % kSpread / 2 : -1;
}

}  // namespace

double HashedModel::value(const std::string& name, uint32_t k) {
    uint32_t h = 2166136261U;
    for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 16777619U;
    uint32_t u = h + 2654435761U * (k + 1);
    u ^= u >> 16;
    u *= 0x85ebca6bU;
    u ^= u >> 13;
    u *= 0xc2b2ae35U;
    u ^= u >> 16;
    return static_cast<double>(u) / 4294967296.0 * 2 - 1;
}

HashedModel::HashedModel(const HashedShape& s) : scale_(s.scale) {
    config_.family = &architecture_of("lckv-llama", "hashed");
    config_.name = "hashed " + s.layer_map;
    config_.n_layers = s.layers;
    config_.dim = s.dim;
    config_.n_heads = s.heads;
    config_.n_kv_heads = s.kv_heads;
    config_.head_dim = kSpread;
    config_.ffn_dim = s.ffn;
    config_.vocab = s.vocab;
    config_.context = s.context;
    config_.norm_eps = 1e-5;
    config_.rope.theta = 10000;
    config_.rope.original_context = s.context;
    config_.layer_map = LayerMap::parse(s.layer_map, s.layers, "test");
    config_.no_diagonal = s.no_diagonal;
    config_.sliding_window = s.sliding_window;
    validate(config_, "hashed");
    natural_dtype_ = DType::kF32;
    for (const ExpectedTensor& t : expected_tensors(config_)) add_tensor({t.name, StoredType::kF32, t.shape});
}

void HashedModel::do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const {
    const TensorInfo& t = tensors()[tensor];
    if (t.shape.rank() == 1) {
        for (int64_t i = 0; i < out.rows(); ++i) {
            static_cast<float*>(out.data())[i] =
                static_cast<float>(1 + 0.1 * value(t.name, static_cast<uint32_t>(row0 + i)));
        }
        return;
    }
    const bool query = t.name.ends_with("q_proj.weight"), o = t.name.ends_with("o_proj.weight");
    const bool by_head = query || t.name.ends_with("k_proj.weight") || t.name.ends_with("v_proj.weight");
    const Matrix<float> to = out.as<float>();
    const int64_t columns = o ? t.shape[1] / kSpread * kDim : t.shape[1];
    // Scores are divided by the square root of 8 here, of 4 there.
    const double scale = scale_ * (query ? std::sqrt(2.0) : 1.0);
    for (int64_t r = 0; r < to.rows; ++r) {
        for (int64_t c = 0; c < to.cols; ++c) {
            const int64_t row = by_head ? plain(row0 + r) : row0 + r, col = o ? plain(col0 + c) : col0 + c;
            to(r, c) = row < 0 || col < 0
                           ? 0.0F
                           : static_cast<float>(scale * value(t.name, static_cast<uint32_t>(row * columns + col)));
        }
    }
}

}  // namespace trireme::test
