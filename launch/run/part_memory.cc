#include "launch/run/part_memory.h"

#include "decode/draft_distributions.h"
#include "launch/run/draft_model.h"
#include "model/footprint.h"
#include "offload/window/window_cache.h"

namespace trireme {
namespace {

/// A level over `shard` of the model of `config`, without its KV cache and weights.
MemoryBytes level_memory(const LlamaConfig& config, const Shard& shard, const LevelOptions& level, const PartModels& m,
                         int64_t held) {
    const WeightFormat& weights = &config == m.draft ? m.draft_weights : m.target_weights;
    MemoryBytes all = level_work(config, shard, weights, level, m.backend, m.threads);
    all.device += DraftDistributions::bytes_for(shard, held);
    return all;
}

MemoryBytes window_memory(const LlamaConfig& config, const Shard& shard, const PartModels& m, int64_t held) {
    LevelOptions level = m.level;
    level.context = m.draft_window + kMaxRows;
    MemoryBytes all = level_memory(config, shard, level, m, held);
    all += WindowCache::memory_for(one_sequence(kv_shape(config, shard, m.level)), draft_window_shape(m.draft_window));
    return all;
}

}  // namespace

MemoryBytes part_memory(Part part, const PartModels& m, int64_t held, int64_t slots) {
    const PartRow& row = row_of(part);
    if (!row.has_level()) return {};
    const bool draft = row.model == PartRow::Model::kDraft;
    const LlamaConfig& config = draft ? *m.draft : m.target;
    const Shard shard = draft ? make_shard(config, 0, 1) : m.shard;  // a draft model is whole on every rank
    const bool window = row.sees == PartRow::Sees::kWindow;
    MemoryBytes all =
        slots * (window ? window_memory(config, shard, m, held) : level_memory(config, shard, m.level, m, held));
    if (draft) all.device += Weights::bytes_for(config, shard, m.draft_weights);
    return all;
}

}  // namespace trireme
