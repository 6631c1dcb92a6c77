#include "launch/run/spec_levels.h"

#include <algorithm>

#include "launch/flags/modes.h"
#include "launch/run/eviction.h"
#include "launch/run/part_memory.h"
#include "model/evicting_kv.h"
#include "model/footprint.h"
#include "offload/retrieved/set_cache.h"
#include "runtime/error.h"

namespace trireme {

RetrievalShape retrieval_shape(const Options& o, bool comes_back) {
    require(o.retrieval_budget == 0 || o.retrieval_budget >= o.retrieval_chunk, Exit::kConfig,
            "--retrieval-budget {}: less than a chunk of {} tokens (--retrieval-chunk)", o.retrieval_budget,
            o.retrieval_chunk);
    return {.budget = o.retrieval_budget == 0 ? kDefaultBudget : o.retrieval_budget,
            .chunk = o.retrieval_chunk,
            .every = o.reselect,
            .generated = o.load_kv.empty() ? o.n_predict : -1,  // a snapshot may hold more generated tokens than -n
            .queries = o.reselect == RetrievalShape::kNever ? 1 : o.reselect_queries,
            .recorded = !o.kv_dump.empty(),
            .comes_back = comes_back && o.reselect != RetrievalShape::kNever};
}

SpecLevels::SpecLevels(const std::vector<Options>& chains, bool again, const Checkpoint& target)
    : target_(target), again_(again || chains.front().num_samples > 1), draft_window_(chains.front().draft_window) {
    const Options& o = chains.front();  // they differ in nothing else that is read here
    options_ = {.k_type = o.cache_type_k, .v_type = o.cache_type_v, .graphs = o.graphs};
    want(chains, target.config().context);  // the prompt's length is not known yet
    // Messages name the chain that requests the part.
    const auto asks = [&](Part part) -> const Options& {
        return *std::find_if(chains.begin(), chains.end(), [&](const Options& c) { return c.spec.has(part); });
    };
    for (const Part part : wanted_.parts) {
        if (row_of(part).sees != PartRow::Sees::kWindow) continue;
        windows_[part] = std::make_unique<DraftModel>(asks(part), target, part);
    }
    if (wants(Part::kSuffix) && !o.suffix_corpus.empty()) {
        corpus_ = read_suffix_corpus(o.suffix_corpus, target.tokenizer.get(), target.config().vocab);
    }
    if (wants(Part::kRetrieval)) retrieval_ = retrieval_shape(o, /*comes_back=*/again_);
}

void SpecLevels::want(const std::vector<Options>& chains, int64_t prompt_tokens) {
    wanted_ = {};
    held_ = {};
    heavy_ = {};
    for (const Options& c : chains) {
        if (c.spec.has(Part::kH2o)) heavy_ = proposing_shape(c, target_.config(), prompt_tokens, /*returns=*/again_);
        for (const Part part : c.spec.parts) {
            if (!wants(part)) wanted_.parts.push_back(part);
            held_[part] += draft_distributions(c, part);
        }
    }
}

// ~RetrievalSet needs the cache that fills the set, and levels that read the set must be destroyed before it.
SpecLevels::~SpecLevels() {
    unload();
}

void SpecLevels::unload() {
    slots_.clear();  // levels before their sets
    for (const auto& [part, model] : windows_) model->unload();
}

RetrievalShape SpecLevels::retrieval(int ranks) const {
    if (!wants(Part::kRetrieval)) return {};
    RetrievalShape shape = retrieval_;
    shape.query_columns = largest_shard(target_.config(), ranks).n_heads * target_.config().head_dim;
    return shape;
}

MemoryBytes SpecLevels::memory(int ranks, std::string_view backend, int threads, int64_t slots) const {
    const Shard shard = largest_shard(target_.config(), ranks);
    const PartModels models = {.target = target_.config(),
                               .shard = shard,
                               .draft = draft() ? &draft()->config() : nullptr,
                               .target_weights = target_.weight_type.format,
                               .draft_weights = draft() ? draft()->weight_type().format : DType::kF32,
                               .level = options_,
                               .backend = backend,
                               .threads = threads,
                               .draft_window = draft_window_};
    MemoryBytes all;
    for (const Part part : wanted_.parts) all += part_memory(part, models, held_.at(part), slots);
    return all;
}

void SpecLevels::load(Device& device, Level& target, Comm& comm, int64_t context) {
    const int64_t slots = target.cache().shape().sequences;
    for (const auto& [part, model] : windows_) {
        if (wants(part)) model->load(device, target.weights(), comm, context, slots);
    }
    // A level has a full cache unless its options name another one.
    RetrievalShape own = retrieval_;
    own.query_columns = target.weights().shard().n_heads * target.config().head_dim;
    for (int64_t slot = 0; slot < slots; ++slot) {
        SetsOfSlot& s = slots_.emplace_back();
        if (wants(Part::kH2o)) {
            s.heavy = heavy_set(device, target, heavy_, comm, slot);
            s.heavy_level = set_level(Part::kH2o, *s.heavy, device, target, comm, context);
        }
        if (wants(Part::kRetrieval)) {
            s.retrieved = std::make_unique<RetrievalSet>(device, target.stream(), *target.full(), own, slot);
            s.retrieving = set_level(Part::kRetrieval, *s.retrieved, device, target, comm, context);
        }
    }
}

std::unique_ptr<Level> SpecLevels::set_level(Part part, KvSet& set, Device& device, Level& target, Comm& comm,
                                             int64_t context) const {
    LevelOptions options = options_;
    options.context = context;
    options.name = name_of(part).data();
    options.cache = [&set](Device& on, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
        return std::make_unique<SetCache>(on, compute, shape, set);
    };
    return std::make_unique<Level>(device, comm, target.weights(), options);
}

Level& SpecLevels::level(Part part, int slot) const {
    if (const auto window = windows_.find(part); window != windows_.end()) return window->second->level(slot);
    const SetsOfSlot& s = slots_.at(static_cast<size_t>(slot));
    if (part == Part::kH2o && s.heavy_level) return *s.heavy_level;
    check(part == Part::kRetrieval && s.retrieving, "no level of '{}' has been made", name_of(part));
    return *s.retrieving;
}

}  // namespace trireme
