#pragma once
/// part_memory(): the memory of the levels of a chain's part. Runs and `trireme plan` count with it.

#include <cstdint>
#include <string_view>

#include "launch/flags/chain_spec.h"
#include "model/level.h"

namespace trireme {

/// What the memory of proposing levels depends on, on one rank. All references must outlive the calls.
struct PartModels {
    const LlamaConfig& target;
    const Shard& shard;                  // the target's, on this rank
    const LlamaConfig* draft = nullptr;  // the draft model, whole on every rank; null: no part has one
    WeightFormat target_weights = DType::kF32, draft_weights = DType::kF32;
    const LevelOptions& level;  // types of keys and values; the context, for levels that attend a set
    std::string_view backend;
    int threads = 1;
    int64_t draft_window = 0;  // tokens that draft and window see
};

/// The memory of `slots` levels of a part, one for each sequence: weights of its own, work buffers, tiles of a window,
/// and the draft distributions of `held` tokens. The sets that h2o and retrieval attend are not included.
MemoryBytes part_memory(Part part, const PartModels& models, int64_t held, int64_t slots);

}  // namespace trireme
