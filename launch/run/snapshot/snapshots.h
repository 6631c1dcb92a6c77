#pragma once
/// Snapshot schedule of a run: after the prompt, every n tokens, on SIGUSR1, and on SIGTERM if there is time.

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

class Snapshots {
  public:
    /// Sources of a snapshot's content.
    struct Of {
        std::vector<Remembered> known;
        std::function<SnapshotText()> text;
        std::function<SpecCosts()> costs = {};  // that determine draft lengths; empty: there are none
    };
    /// An existing file may be replaced with --force, or if the run has resumed it.
    Snapshots(const Options& options, const RankGroup& rank_group, Engine& engine, Of of);

    /// Writes a snapshot now: after a prompt or a conversation turn is read, or at the end. Errors: as SnapshotWriter.
    void write();
    /// Called after a round with its number of tokens and the agreed status. Writes a snapshot if one is due. Returns
    /// `agreed`, or kSaved if the run is to end because its snapshot is written. If a snapshot that no signal requested
    /// cannot be written, the previous one is kept and a warning is logged.
    int round(size_t tokens, int agreed);
    /// Called at the end of a run. Throws an AgreedError if the last due snapshot could not be written.
    void require_last() const;

  private:
    double expected_s() const;

    Of of_;
    SnapshotWriter writer_;
    const RankGroup& rank_group_;
    const Level& model_;
    int64_t every_, since_ = 0;  // tokens
    double grace_s_;
    double bytes_per_s_ = 0;  // of the last snapshot; 0: there was none
    double bytes_ = 0;
    std::optional<AgreedError> missing_;
};

}  // namespace trireme
