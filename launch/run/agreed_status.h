#pragma once
/// Agreed status: once a round, all ranks decide together whether the run stops, and check that their tokens are equal.

#include <cstdint>
#include <span>

#include "launch/run/rank_group.h"

namespace trireme {

/// A status: the reader of a rank's stdout is gone. The run ends without a failure.
constexpr int kReaderGone = 1;
/// kSnapshotAsked: SIGUSR1 came, and the run must write a snapshot and end. kSaved: it has written one after a signal.
constexpr int kSnapshotAsked = 2, kSaved = 3;

/// Thrown by a prefill's progress callback on all ranks together, when they have agreed to stop.
struct Interrupted {};

/// Called after each round, and with an empty `round` and chain 0 during a prefill. Ranks agree whether to stop, since
/// a signal may reach them in different rounds. They also compare `round`, the tokens that each has sampled, and
/// `chain`, a digest of what its levels did (Chain::digest). `own` is the status of this rank alone, 0 to 127. Returns
/// the largest status of all ranks: 128 + the number of a signal (remembered_signal), an own status, or 0 to continue.
/// A control call. Errors: Exit::kInternal on all ranks if they sampled, proposed or accepted different tokens.
int agreed_status(const RankGroup& rank_group, int own, std::span<const int32_t> round, uint64_t chain);

/// The exit status of a process that stops because of an agreed status: 0 for kReaderGone, 75 (Exit::kTryAgain) for a
/// snapshot, else the status itself.
int exit_status(int agreed);

}  // namespace trireme
