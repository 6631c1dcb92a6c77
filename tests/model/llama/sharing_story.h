#pragma once
/// A level over a hashed model, and its logits.

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "dist/staged_comm.h"
#include "tests/model/llama/engine_device.h"
#include "tests/support/engine.h"
#include "tests/support/hashed_model.h"
#include "tests/support/ranks.h"
#include "tests/support/sharing_reference.h"

namespace trireme::test {

using Logits = std::vector<std::vector<float>>;

inline constexpr double kTolerance = 2e-5;  // relative to the largest logit, in f32

/// A hashed model's weights on a rank.
struct Loaded {
    Loaded(const HashedShape& shape, Comm& comm)
        : device(open_device(engine_device(), {.threads = 1})),
          own_comm(comm_of(comm, *device)),
          ranks(own_comm ? *own_comm : comm),
          weights(*device, HashedModel(shape), make_shard(HashedModel(shape).config(), comm.rank(), comm.size()),
                  DType::kF32) {}
    std::unique_ptr<Level> level(const LevelOptions& options) {
        return std::make_unique<Level>(*device, ranks, weights, options);
    }
    std::unique_ptr<Device> device;
    std::unique_ptr<Comm> own_comm;
    Comm& ranks;
    Weights weights;
};

/// f32 throughout; `residency` selects the owners on chip.
inline LevelOptions sharing_options(const Passes& passes, const Residency& residency = {}, int64_t context = 2048) {
    return {.k_type = DType::kF32, .v_type = DType::kF32, .context = context, .residency = residency, .passes = passes};
}
inline Passes exactly(int64_t n) {
    return {.how = Passes::How::kFixed, .n = n};
}
inline Residency on_chip(std::vector<bool> owners) {
    return {.on_chip = std::move(owners), .span_bytes = 1, .verify = true};
}

/// Logits of every token of a prefill.
inline Logits read(Level& level, std::span<const int32_t> ids) {
    Logits all;
    level.prefill(0, ids, {}, [&](int64_t, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = 0; r < m.rows; ++r) all.emplace_back(m.row(r), m.row(r) + m.cols);
    });
    return all;
}
/// Like read(), but token by token.
inline Logits decode(Level& level, std::span<const int32_t> ids) {
    Logits all;
    for (const int32_t id : ids) {
        const Row row{.token = id, .position = static_cast<int32_t>(level.length())};
        level.forward({&row, 1});
        const Matrix<float> m = level.logits().host().as<float>();
        all.emplace_back(m.row(0), m.row(0) + m.cols);
        level.keep(0, std::vector<int32_t>{0});
    }
    return all;
}
inline std::vector<int32_t> hashed_ids(int64_t n, int64_t vocab, uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::vector<int32_t> ids(static_cast<size_t>(n));
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocab));
    return ids;
}
/// A random function of the layers; layers that read later ones are as likely as others.
inline std::string random_map(int64_t layers, uint32_t seed) {
    std::mt19937 random(seed);
    std::string map;
    for (int64_t l = 0; l < layers; ++l)
        map += (l > 0 ? "_" : "") + std::to_string(random() % static_cast<uint32_t>(layers));
    return map;
}

/// A model with a random map.
inline HashedShape random_shape(uint32_t seed) {
    const int64_t layers = 2 + seed % 5;
    return {.layer_map = random_map(layers, seed),
            .no_diagonal = seed % 4 == 3,
            .layers = layers,
            .dim = 24,
            .heads = 4,
            .kv_heads = seed % 2 == 0 ? 2 : 4,
            .ffn = 20,
            .vocab = 32,
            .scale = 0.25};
}

/// The largest difference, relative to the largest logit of `want` or to 1, whichever is larger.
inline double difference(const std::vector<float>& got, const std::vector<double>& want) {
    double most = 0, scale = 1;
    for (size_t i = 0; i < want.size(); ++i) {
        most = std::fmax(most, std::fabs(static_cast<double>(got[i]) - want[i]));
        scale = std::fmax(scale, std::fabs(want[i]));
    }
    return most / scale;
}

}  // namespace trireme::test
