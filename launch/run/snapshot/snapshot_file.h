#pragma once
/// The files of a snapshot. One rank: FILE has all of it. Several: FILE, which rank 0 writes last, names a file of each
/// rank beside it, FILE.rank-R-of-N.ID; the ID is another one for each snapshot, so that the files of one that is
/// complete are never touched. Formats: model/files/store/sets.h. "about" has what the run was told and how far it is;
/// "ids" the text, i32; "k" and "v" the tiles of a full view (tiles.h); "chain" and "retrieved", "heavy" what objects
/// remember, which only the same number of ranks can take up; of a conversation "session" and "level" instead of
/// "chain".

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "decode/spec_costs.h"
#include "dist/agreement.h"
#include "launch/run/chain.h"
#include "launch/run/crew.h"
#include "launch/run/engine.h"
#include "launch/run/snapshot/tiles.h"

namespace trireme {

/// How far a run is.
struct SnapshotText {
    std::vector<int32_t> prompt, generated;

    std::vector<int32_t> ids() const {
        std::vector<int32_t> all = prompt;
        all.insert(all.end(), generated.begin(), generated.end());
        return all;
    }
};

/// What a run knows besides the tiles of a full view: "chain", or "session" and "level".
struct Remembered {
    std::string name;
    std::function<void(Archive&)> state;
};

class SnapshotWriter {
  public:
    /// `settings`: of the run, compared where the snapshot is taken up. `old`: of the first one; the others take its
    /// place.
    SnapshotWriter(std::string path, IfThere old, const Crew& crew, Engine& engine, std::vector<Remembered> known,
                   KeyValues settings);

    /// All ranks pass, or all throw: errors as StoreWriter. Blocks until all of it is on the disk. Returns the bytes of
    /// all ranks.
    /// `costs`: that draft lengths go by.
    uint64_t write(const SnapshotText& text, const SpecCosts& costs);
    const std::string& path() const { return path_; }

  private:
    uint64_t write_rank(const SnapshotText& text, const SpecCosts& costs, const std::string& id,
                        const std::vector<std::string>& parts);
    void publish(StoreWriter& writer);
    void sweep(const std::string& id, bool of_others) const;

    std::string path_;
    IfThere old_;
    bool named_ = false;  // the snapshot that is being written has its name, on rank 0
    const Crew& crew_;
    Engine& engine_;
    std::vector<Remembered> known_;
    KeyValues settings_;
};

class SnapshotReader {
  public:
    /// Opens the files. All ranks pass, or all throw: errors as StoreReader.
    SnapshotReader(std::string path, const Crew& crew);

    const SnapshotText& text() const { return text_; }
    const SpecCosts& costs() const { return costs_; }
    /// That wrote it.
    int ranks() const { return parts_.empty() ? 1 : static_cast<int>(parts_.size()); }
    /// Exit::kData, naming what differs, unless the model is the same, and its keys and values are kept in the same
    /// types.
    void require_same_model(const KeyValues& mine) const;
    /// What differs of the chain and of how tokens are drawn; empty: nothing, and the ranks are as many.
    std::string other_chain(const KeyValues& mine) const;
    /// Whether that is in it.
    bool remembers(const std::string& name) const;
    /// Fills the engine, and what it knows: the run goes on as the one that was written would have. All ranks pass, or
    /// all throw.
    void load(Engine& engine, const std::vector<Remembered>& known, const Crew& crew) const;
    /// The same of the tiles alone, and of what every rank's file has. Errors: Exit::kConfig for a bounded view.
    void load_tiles(Engine& engine, const std::vector<Remembered>& known, const Crew& crew) const;
    /// Another chain, or other ranks: they take the text up as one that they have read, with the tokens of its law that
    /// they draw themselves. Errors: Exit::kConfig where the chain needs what cannot be taken up: what is retrieved or
    /// kept by heads, of another number of ranks, or behind generated tokens; a bounded view.
    void load_text(Engine& engine, Chain& chain, const Crew& crew) const;

  private:
    const StoreReader& own(const Crew& crew) const {
        return parts_.empty() ? *manifest_ : *parts_[static_cast<size_t>(crew.comm().rank())];
    }
    void fill(Engine& engine, const Buffer<Space::kHost>& staging) const;

    std::string path_;
    std::unique_ptr<StoreReader> manifest_;
    std::vector<std::unique_ptr<StoreReader>> parts_;  // by rank; empty: one rank, whose file is the manifest
    std::vector<TilePart> tiles_;
    KeyValues settings_;
    SnapshotText text_;
    int64_t tokens_ = 0;  // with keys and values: of a full view
    SpecCosts costs_;
};

}  // namespace trireme
