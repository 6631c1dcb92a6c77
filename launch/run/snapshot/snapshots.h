#pragma once
/// Snapshots: the schedule of a run's snapshots (--save-kv). They are written after the prompt, every
/// --checkpoint-every tokens, on SIGUSR1, and on SIGTERM if there is time (--grace).

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

/// Every rank of generate has one; all make the same calls.
class Snapshots {
  public:
    /// Sources of a snapshot's content.
    struct Of {
        std::vector<Remembered> known;          // the saved states (known_of)
        std::function<SnapshotText()> text;     // returns the sequence at this time
        std::function<SpecCosts()> costs = {};  // returns those that determine draft lengths; empty: there are none
    };
    /// Writes nothing yet. An existing file may be replaced with --force, or if the run has resumed it.
    Snapshots(const Options& options, const RankGroup& rank_group, Engine& engine, Of of);

    /// Writes a snapshot now: after a prompt or a conversation turn is read, or at the end. Errors: as SnapshotWriter.
    void write();
    /// Call it after a round with its number of tokens and the agreed status (agreed_status.h). Writes a snapshot if
    /// one is due. Returns `agreed`, or kSaved if a signal's snapshot is written and the run must end. If a snapshot
    /// that no signal requested cannot be written, the previous one is kept and a warning is logged. Errors: as
    /// SnapshotWriter for a signal's snapshot.
    int round(size_t tokens, int agreed);
    /// Call it at the end of a run. Throws an AgreedError if the last due snapshot could not be written.
    void require_last() const;

  private:
    double expected_s() const;

    Of of_;
    SnapshotWriter writer_;
    const RankGroup& rank_group_;
    const Level& model_;
    int64_t every_, since_ = 0;  // tokens between two snapshots (0: none are due), and since the last one
    double grace_s_;
    double bytes_per_s_ = 0;  // of the last snapshot; 0: there was none
    double bytes_ = 0;
    std::optional<AgreedError> missing_;  // why the last due snapshot could not be written
};

}  // namespace trireme
