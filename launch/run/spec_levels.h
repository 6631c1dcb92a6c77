#pragma once
/// The levels that propose in speculative runs, beside the target: a draft model's, and those over the target's own
/// weights that see a window, heavy hitters or what is retrieved. Each is there at most once; several chains may use
/// it, one after the other.

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "launch/flags/chain_spec.h"
#include "launch/run/draft_model.h"
#include "offload/policies/heavy_set.h"
#include "offload/policies/retrieval_set.h"

namespace trireme {

class SpecLevels {
  public:
    /// For every part that one of these options' chains has. `again`: several texts are generated behind a prompt,
    /// whatever the options say. Reads no weights yet. Errors: as DraftModel.
    SpecLevels(const std::vector<Options>& chains, bool again, const Checkpoint& target);
    ~SpecLevels();

    /// Of these, what load() is to make: the parts of these chains, for prompts of so many tokens. Errors: as
    /// proposing_shape.
    void want(const std::vector<Options>& chains, int64_t prompt_tokens);
    /// What is retrieved from a full view, on the largest of `ranks` ranks; budget 0: nothing.
    RetrievalShape retrieval(int ranks) const;
    /// What heads of the target keep for a chain with h2o; kFull: no chain has it.
    const BoundedShape& heavy() const { return heavy_; }
    /// What levels and held laws take on each of `ranks` ranks, but for what is retrieved or kept, on a device of
    /// `backend` with `threads` threads.
    MemoryBytes memory(int ranks, std::string_view backend, int threads) const;
    /// Makes the levels, of texts of at most `context` tokens, which `target` reads. All of them must outlive the
    /// object. Errors: as Weights and Level.
    void load(Device& device, Level& target, Comm& comm, int64_t context);

    /// Forgets them, before their target goes.
    void unload();

    /// Errors: Exit::kInternal for a part that no chain has.
    Level& level(Part part) const;
    /// Of the draft model; null: no chain has one.
    const WeightSource* draft_files() const { return draft_ ? draft_->files() : nullptr; }
    /// Null: no chain retrieves.
    RetrievalSet* retrieved() const { return set_.get(); }
    /// By name, what follows the target's view and is read by levels here; null: no chain has it.
    std::vector<std::pair<const char*, KvSet*>> sets() const {
        return {{"retrieved", set_.get()}, {"heavy", heavy_set_.get()}};
    }

  private:
    bool wants(Part part) const { return wanted_.has(part); }
    std::vector<DraftModel*> drafts() const;
    std::unique_ptr<Level> set_level(Part part, KvSet& set, Device& device, Level& target, Comm& comm,
                                     int64_t context) const;

    const Checkpoint& target_;
    ChainSpec wanted_;              // in no order
    std::map<Part, int64_t> held_;  // laws, of all wanted chains
    LevelOptions options_;
    bool again_;  // prompts are continued several times
    RetrievalShape retrieval_;
    BoundedShape heavy_;
    std::unique_ptr<DraftModel> draft_, window_;
    std::unique_ptr<RetrievalSet> set_;
    std::unique_ptr<HeavySet> heavy_set_;
    std::unique_ptr<Level> retrieving_, heavy_level_;
};

/// The budget of a chain that retrieves where none is asked for: TriForce's.
inline constexpr int64_t kDefaultBudget = 4096;
/// What a run's flags say of retrieval, where a chain retrieves, but for query_columns, which are a rank's. Errors:
/// Exit::kConfig for a budget below a chunk.
RetrievalShape retrieval_shape(const Options& options, bool comes_back);
/// What a level over a KvSet takes of a rank that holds `shard`, but for the set: work, and the laws of `held` tokens.
MemoryBytes set_level_memory(const LlamaConfig& config, const Shard& shard, const LevelOptions& options,
                             std::string_view backend, int threads, int64_t held);

}  // namespace trireme
