#pragma once
/// When a run writes snapshots: behind the prompt, every so many tokens, on SIGUSR1, and on SIGTERM if there is time.

#include <cstdint>
#include <functional>
#include <vector>

#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

class Snapshots {
  public:
    /// Of what a snapshot is made, when one is due.
    struct Of {
        std::vector<Remembered> known;
        std::function<SnapshotText()> text;
        std::function<SpecCosts()> costs = {};  // that draft lengths go by; empty: there are none
    };
    /// What is at the path may be replaced with --force, or where the run has taken it up.
    Snapshots(const Options& options, const Crew& crew, Engine& engine, Of of);

    /// A prompt, or a turn, is read, or the run is at its end: writes it. Errors: as SnapshotWriter.
    void write();
    /// Behind a round: how many tokens it gave, and what ranks have agreed on. Writes what is due. Returns what the run
    /// is to do: `agreed`, or kSaved where it is to end because all of it is written. A snapshot that is not asked for
    /// by a signal and cannot be written leaves the one before, and a warning.
    int round(size_t tokens, int agreed);
    /// At the end of a run: an AgreedError if the last snapshot that was due could not be written.
    void require_last() const;

  private:
    double expected_s() const;

    Of of_;
    SnapshotWriter writer_;
    const Crew& crew_;
    const Level& model_;
    int64_t every_, since_ = 0;  // tokens
    double grace_s_;
    double bytes_per_s_ = 0;  // of the last one; 0: there was none
    double bytes_ = 0;
    std::optional<AgreedError> missing_;
};

}  // namespace trireme
