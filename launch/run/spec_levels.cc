#include "launch/run/spec_levels.h"

#include "decode/held_laws.h"
#include "model/footprint.h"
#include "offload/policies/retrieval_view.h"
#include "runtime/error.h"

namespace trireme {
namespace {

bool any_has(const std::vector<ChainSpec>& chains, Part part) {
    return std::any_of(chains.begin(), chains.end(), [&](const ChainSpec& c) { return c.has(part); });
}

}  // namespace

RetrievalShape retrieval_shape(const Options& o, bool comes_back) {
    return {.budget = o.retrieval_budget == 0 ? kDefaultBudget : o.retrieval_budget,
            .chunk = o.retrieval_chunk,
            .every = o.reselect,
            .comes_back = comes_back && o.reselect != RetrievalShape::kNever};
}

SpecLevels::SpecLevels(const Options& o, const std::vector<ChainSpec>& chains, const Checkpoint& target)
    : target_(target), options_{.k_type = o.cache_type_k, .v_type = o.cache_type_v, .graphs = o.graphs} {
    const bool tree = std::any_of(chains.begin(), chains.end(), [](const ChainSpec& c) { return c.tree; });
    held_ = tree ? std::max(o.draft_tokens, o.tree_size) : o.draft_tokens;
    if (any_has(chains, Part::kDraft)) draft_ = std::make_unique<DraftModel>(o, target, Part::kDraft);
    if (any_has(chains, Part::kWindow)) window_ = std::make_unique<DraftModel>(o, target, Part::kWindow);
    if (any_has(chains, Part::kRetrieval)) {
        retrieval_ = retrieval_shape(o, /*comes_back=*/o.num_samples > 1 || chains.size() > 1);
    }
}

// The view that fills the set outlives it (~RetrievalSet), and what reads the set goes first.
SpecLevels::~SpecLevels() {
    unload();
}

void SpecLevels::unload() {
    retrieving_.reset();
    set_.reset();
    for (DraftModel* drafts : {draft_.get(), window_.get()}) {
        if (drafts != nullptr) drafts->unload();
    }
}

size_t SpecLevels::device_bytes(int ranks, std::string_view backend, int threads) const {
    size_t bytes = 0;
    for (const auto* drafts : {draft_.get(), window_.get()}) {
        if (drafts != nullptr) bytes += drafts->device_bytes(ranks, backend, threads);
    }
    if (retrieval_.budget == 0) return bytes;
    const LlamaConfig& config = target_.config();
    const Shard shard = largest_shard(config, ranks);
    return bytes + level_work(config, shard, options_, backend, threads).device + HeldLaws::bytes_for(shard, held_);
}

void SpecLevels::load(Device& device, Level& target, Comm& comm, int64_t context) {
    for (DraftModel* drafts : {draft_.get(), window_.get()}) {
        if (drafts != nullptr) drafts->load(device, target.weights(), comm, context);
    }
    if (retrieval_.budget == 0) return;
    // A level's view is a full one unless it is told otherwise.
    set_ = std::make_unique<RetrievalSet>(device, target.stream(), dynamic_cast<FullView&>(target.view()), retrieval_);
    LevelOptions options = options_;
    options.context = context;
    options.view = [this](Device& on, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
        return std::make_unique<RetrievalView>(on, compute, shape, *set_);
    };
    retrieving_ = std::make_unique<Level>(device, comm, target.weights(), options);
}

Level& SpecLevels::level(Part part) const {
    if (part == Part::kDraft && draft_) return draft_->level();
    if (part == Part::kWindow && window_) return window_->level();
    check(part == Part::kRetrieval && retrieving_, "no level of '{}' has been made", name_of(part));
    return *retrieving_;
}

}  // namespace trireme
