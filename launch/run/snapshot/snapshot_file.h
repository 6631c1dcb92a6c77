#pragma once
/// SnapshotWriter and SnapshotReader: the file FILE that holds a run's state (--save-kv, --load-kv).
///
/// With one rank, FILE has all data. With several, it names one file per rank in the same folder, FILE.rank-R-of-N.ID,
/// and rank 0 writes it last. Each snapshot has its own ID, so a complete snapshot's files are never overwritten. Files
/// are stores (model/files/store/sets.h) with these data sets. "about" has settings and progress; "ids" the sequence,
/// i32; "k" and "v" the tiles of a full cache (tiles.h). "chain", "retrieved" and "heavy" are states of objects, which
/// only the same number of ranks can resume. Conversations have "session" and "level", not "chain".

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decode/spec_costs.h"
#include "dist/agreement.h"
#include "launch/run/chain.h"
#include "launch/run/engine.h"
#include "launch/run/rank_group.h"
#include "launch/run/snapshot/tiles.h"
#include "runtime/index.h"

namespace trireme {

/// The sequence of a run so far.
struct SnapshotText {
    std::vector<int32_t> prompt, generated;  // of a conversation: all before the last answer, and that answer

    /// The prompt, then the generated tokens.
    std::vector<int32_t> ids() const {
        std::vector<int32_t> all = prompt;
        all.insert(all.end(), generated.begin(), generated.end());
        return all;
    }
};

/// A named part of a run's state, in addition to the tiles of a full cache: "chain", "session" or "level".
struct Remembered {
    std::string name;
    std::function<void(Archive&)> state;  // writes the part to the archive, or restores it
};

/// Every rank has one. Used by Snapshots (snapshots.h).
class SnapshotWriter {
  public:
    /// `known`: the parts to save (known_of). `settings` are Engine::settings(), compared when the snapshot is resumed.
    /// `old`: what happens to a file that exists before the first snapshot; later snapshots replace it.
    SnapshotWriter(std::string path, IfThere old, const RankGroup& rank_group, Engine& engine,
                   std::vector<Remembered> known, KeyValues settings);

    /// Writes a snapshot, and blocks until all of it is on the disk. `text`: the whole sequence so far. `costs`: those
    /// that determine draft lengths; may be empty. Returns the bytes of all ranks. If it fails, the previous snapshot
    /// remains, unless only flushing its folder failed: then the new one is there. All ranks pass, or all throw: errors
    /// as StoreWriter.
    uint64_t write(const SnapshotText& text, const SpecCosts& costs);
    const std::string& path() const { return path_; }

  private:
    uint64_t write_rank(const SnapshotText& text, const SpecCosts& costs, const std::string& id,
                        const std::vector<std::string>& parts);
    void publish(StoreWriter& writer);
    void sweep(const std::string& id, bool of_others) const;

    std::string path_;
    IfThere old_;
    bool named_ = false;  // on rank 0: the snapshot being written has its final name
    const RankGroup& rank_group_;
    Engine& engine_;
    std::vector<Remembered> known_;
    KeyValues settings_;
};

class SnapshotReader {
  public:
    /// Opens the files of all ranks on every rank. All ranks pass, or all throw: errors as StoreReader.
    SnapshotReader(std::string path, const RankGroup& rank_group);

    const SnapshotText& text() const { return text_; }
    const SpecCosts& costs() const { return costs_; }
    /// The number of ranks that wrote it.
    int ranks() const { return parts_.empty() ? 1 : static_cast<int>(parts_.size()); }
    /// Checks that the snapshot's settings and `mine` (Engine::settings()) have one model. Errors: Exit::kData, naming
    /// the difference, if the model or the types of its keys and values differ.
    void require_same_model(const KeyValues& mine) const;
    /// The first difference in the chain, eviction or sampling settings; empty: none. The number of ranks is not
    /// compared.
    std::string other_chain(const KeyValues& mine) const;
    /// Whether the snapshot contains the state `name` ("chain", "session").
    bool remembers(const std::string& name) const;
    /// Restores the engine's tiles and KV sets, and the `known` states, to resume exactly. Requires the number of ranks
    /// that wrote it. All ranks pass, or all throw.
    void load(Engine& engine, const std::vector<Remembered>& known, const RankGroup& rank_group) const;
    /// Like load(), for any number of ranks and without KV sets. `known` may have only states that are equal in all
    /// ranks' files. Errors: Exit::kConfig for an evicting cache.
    void load_tiles(Engine& engine, const std::vector<Remembered>& known, const RankGroup& rank_group) const;
    /// Restores the tiles, after which another chain or number of ranks continues the sequence. Computes the logits of
    /// the last token again, unless the snapshot has them. Tokens may differ from an exact resume; their distribution
    /// does not. Errors: Exit::kConfig for an evicting cache, and if the chain requires a KV set that was not saved.
    /// Sets saved by another number of ranks, on another backend or after generated tokens do not count.
    void load_text(Engine& engine, Chain& chain, const RankGroup& rank_group) const;

  private:
    const StoreReader& own(const RankGroup& rank_group) const {
        return parts_.empty() ? *manifest_ : *parts_[index(rank_group.comm().rank())];
    }
    void fill(Engine& engine, const Buffer<Space::kHost>& staging) const;

    std::string path_;
    std::unique_ptr<StoreReader> manifest_;
    std::vector<std::unique_ptr<StoreReader>> parts_;  // by rank; empty: one rank, whose file is the manifest
    std::vector<TilePart> tiles_;
    KeyValues settings_;
    SnapshotText text_;
    int64_t tokens_ = 0;  // tokens that have keys and values, of a full cache
    SpecCosts costs_;
};

}  // namespace trireme
