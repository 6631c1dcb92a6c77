#pragma once
/// SpecLevels: the proposing levels of a speculative run. They are the draft model, and levels that use the target's
/// weights but attend only a part of the KV cache: a window, heavy hitters, or retrieved chunks. Each exists at most
/// once for every sequence of the target; the chains of a bench use it one after the other.

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "launch/flags/chain_spec.h"
#include "launch/run/draft_model.h"
#include "launch/run/suffix_corpus.h"
#include "offload/evicting/heavy_set.h"
#include "offload/retrieved/retrieval_set.h"

namespace trireme {

/// Owned by Engine, which calls want() and load().
class SpecLevels {
  public:
    /// Prepares every part that any of these chains uses. `again`: prompts are continued several times, also with
    /// --num-samples 1 (bench). Reads no weights yet. Errors: as DraftModel, proposing_shape, retrieval_shape and
    /// read_suffix_corpus.
    SpecLevels(const std::vector<Options>& chains, bool again, const Checkpoint& target);
    ~SpecLevels();

    /// Selects the parts of these chains for load(), for prompts of `prompt_tokens` tokens. They must be among the
    /// constructor's chains. Call it when nothing is loaded. Errors: as proposing_shape.
    void want(const std::vector<Options>& chains, int64_t prompt_tokens);
    /// The shape of the retrieved set on the rank with the largest shard, of `ranks` ranks; budget 0: no chain
    /// retrieves.
    RetrievalShape retrieval(int ranks) const;
    /// The shape of the heavy-hitter set; its policy is kFull if no chain has h2o.
    const EvictionShape& heavy() const { return heavy_; }
    /// The memory of levels and draft distributions on each of `ranks` ranks, on a device of `backend` with `threads`
    /// threads, for `slots` sequences. The retrieved and heavy-hitter sets are not included.
    MemoryBytes memory(int ranks, std::string_view backend, int threads, int64_t slots) const;
    /// Makes the levels that want() selected, for each sequence of `target`. Sequences have at most `context` tokens;
    /// `target` is the full model's level. The arguments must remain until unload(). Errors: as Weights and Level.
    void load(Device& device, Level& target, Comm& comm, int64_t context);

    /// Destroys the levels. Call it before their target is destroyed.
    void unload();

    /// The level of a part for a sequence, after load(). Errors: Exit::kInternal for a part without a level.
    Level& level(Part part, int slot = 0) const;
    /// How the draft model's weights are held (WeightType::name); empty: no chain has a draft model.
    std::string draft_weights() const { return draft() ? draft()->weight_type().name : std::string(); }
    /// The draft model's files; null: no chain has a draft model.
    const WeightSource* draft_files() const { return draft() ? draft()->files() : nullptr; }
    /// What suffix searches in addition to the sequence; null: no chain has suffix, or there is no --suffix-corpus.
    std::shared_ptr<const SuffixAutomaton> corpus() const {
        return corpus_ ? std::shared_ptr<const SuffixAutomaton>(corpus_, &corpus_->text) : nullptr;
    }
    /// A digest of its ids; empty: there is none.
    std::string corpus_digest() const { return corpus_ ? corpus_->digest : std::string(); }
    /// The retrieved set of sequence 0; null: no chain retrieves, or nothing is loaded.
    RetrievalSet* retrieved() const { return slots_.empty() ? nullptr : slots_[0].retrieved.get(); }
    /// The KV sets of sequence 0 that the target's cache fills and levels here attend, with their names in snapshots.
    /// Null: no chain uses the set.
    std::vector<std::pair<const char*, KvSet*>> sets() const {
        return {{"retrieved", retrieved()}, {"heavy", slots_.empty() ? nullptr : slots_[0].heavy.get()}};
    }

  private:
    bool wants(Part part) const { return wanted_.has(part); }
    /// The draft model; null: no chain has one.
    const DraftModel* draft() const {
        const auto found = windows_.find(Part::kDraft);
        return found == windows_.end() ? nullptr : found->second.get();
    }
    std::unique_ptr<Level> set_level(Part part, KvSet& set, Device& device, Level& target, Comm& comm,
                                     int64_t context) const;

    const Checkpoint& target_;
    ChainSpec wanted_;              // the selected parts, in no order
    std::map<Part, int64_t> held_;  // number of draft distributions per part: the sum over the selected chains
    LevelOptions options_;
    bool again_;  // prompts are continued several times
    int64_t draft_window_;
    RetrievalShape retrieval_;
    EvictionShape heavy_;
    std::shared_ptr<const SuffixCorpus> corpus_;
    std::map<Part, std::unique_ptr<DraftModel>> windows_;  // of the parts that see a window
    /// The sets of one sequence, and the levels that attend them. Null: no chain uses them.
    struct SetsOfSlot {
        std::unique_ptr<RetrievalSet> retrieved;
        std::unique_ptr<HeavySet> heavy;
        std::unique_ptr<Level> retrieving, heavy_level;
    };
    std::vector<SetsOfSlot> slots_;
};

/// The default budget of a chain that retrieves: TriForce's.
inline constexpr int64_t kDefaultBudget = 4096;
/// The retrieval shape that a run's flags request, without query_columns, which depends on the rank. `comes_back`: a
/// prompt is continued several times. Errors: Exit::kConfig for a budget smaller than a chunk.
RetrievalShape retrieval_shape(const Options& options, bool comes_back);

}  // namespace trireme
