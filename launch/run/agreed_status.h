#pragma once
/// The status that ranks agree on once a round.

#include <cstdint>
#include <span>

#include "launch/run/rank_group.h"

namespace trireme {

/// A rank's own status: the reader of its stdout is gone. It ends a run without a failure.
constexpr int kReaderGone = 1;
/// kSnapshotAsked: SIGUSR1 came, and the run is to write a snapshot and end. kSaved: it has written one after a signal.
constexpr int kSnapshotAsked = 2, kSaved = 3;

/// Thrown out of a prefill by all ranks together when they have agreed to stop.
struct Interrupted {};

/// The control message of a round. Ranks agree whether to stop, since a signal may reach them in different rounds. They
/// also compare the tokens that each has sampled and `chain`, a digest of what its levels did (Chain::digest). `own` is
/// the status of this rank alone, 0 to 127. Returns the largest status of all ranks: 128 + the number of a signal, an
/// own status, or 0. Errors: Exit::kInternal on all ranks if they sampled, proposed or accepted different tokens.
int agreed_status(const RankGroup& rank_group, int own, std::span<const int32_t> round, uint64_t chain);

/// The exit status of a process that stops because of an agreed status.
int exit_status(int agreed);

}  // namespace trireme
