#pragma once
/// When a run writes snapshots: behind the prompt, every so many tokens, on SIGUSR1, and on SIGTERM if there is time.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

class Snapshots {
  public:
    /// `old`: of what is at the path when the run begins.
    Snapshots(const Options& options, const Crew& crew, Engine& engine, Chain& chain, KeyValues settings,
              SnapshotText text, IfThere old);

    /// The first sample has begun: writes the prompt's, unless the run goes on behind one that is there.
    void begun(bool resumed);
    /// Behind a round: these tokens, and what ranks have agreed on. Writes what is due. Returns what the run is to do:
    /// `agreed`, or kSaved where it is to end because all of it is written. A snapshot that is not asked for by a
    /// signal and cannot be written leaves the one before, and a warning.
    int round(std::span<const int32_t> tokens, int agreed);
    /// At the end of a run: an AgreedError if the last snapshot that was due could not be written.
    void require_last() const;

  private:
    double expected_s() const;
    void write();

    SnapshotWriter writer_;
    const Crew& crew_;
    const Level& model_;
    SnapshotText text_;
    int64_t every_, since_ = 0;  // tokens
    double grace_s_;
    double bytes_per_s_ = 0;  // of the last one; 0: there was none
    double bytes_ = 0;
    std::optional<AgreedError> missing_;
};

}  // namespace trireme
