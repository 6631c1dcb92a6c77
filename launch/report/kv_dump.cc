#include "launch/report/kv_dump.h"

#include "launch/report/kept_dump.h"
#include "launch/report/retrieval_dump.h"
#include "launch/run/spec_levels.h"
#include "runtime/error.h"

namespace trireme {

KvDump::KvDump(const Engine& engine, const RankGroup& rank_group) : engine_(engine), rank_group_(rank_group) {
    const LayerMap& map = engine.checkpoint().config().layer_map;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.owns(l)) owners_.push_back(l);
    }
    const Shard& shard = engine.weights().shard();
    first_head_ = shard.kv_first;
    end_head_ = shard.kv_begin + shard.n_kv_heads;
}

void KvDump::append(const std::string& own) {
    const std::vector<std::string> all = rank_group_.comm().gather_bytes(own);
    if (!rank_group_.first()) return;
    // Ranks hold heads in ascending order: for each owner, append the lines of all ranks.
    std::vector<size_t> at(all.size(), 0);
    for (size_t owner = 0; owner < owners_.size(); ++owner) {
        for (size_t rank = 0; rank < all.size(); ++rank) {
            const size_t end = all[rank].find(end_owner(), at[rank]);
            lines_.append(all[rank], at[rank], end - at[rank]);
            at[rank] = end + 1;
        }
    }
}

std::unique_ptr<KvDump> make_kv_dump(const Options& o, const Engine& engine, const RankGroup& rank_group,
                                     int64_t prompt) {
    if (o.kv_dump.empty()) return nullptr;
    require(o.num_samples == 1, Exit::kConfig, "--kv-dump: found --num-samples {}, want 1", o.num_samples);
    if (engine.eviction().evicts()) return std::make_unique<KeptDump>(engine, rank_group, prompt);
    RetrievalSet* const set = engine.proposing() != nullptr ? engine.proposing()->retrieved() : nullptr;
    require(set != nullptr, Exit::kConfig,
            "--kv-dump: every head keeps all tokens here, and no chain retrieves; want a --kv-policy other than full, "
            "or --spec retrieval or triforce");
    return std::make_unique<RetrievalDump>(engine, rank_group, *set);
}

}  // namespace trireme
