#pragma once
/// What ranks agree on once a round.

#include <cstdint>
#include <span>

#include "launch/run/crew.h"

namespace trireme {

/// A rank's own status: nobody reads its stdout any more. That ends a run, and is no failure.
constexpr int kReaderGone = 1;
/// SIGUSR1 has come: the run is to write a snapshot, and to end. And: it has written one, on a signal, and ends.
constexpr int kSnapshotAsked = 2, kSaved = 3;

/// Thrown out of a prefill by all ranks at once, when they have agreed to stop.
struct Interrupted {};

/// The one control message of a round: whether to stop, since a signal may reach ranks in different rounds; and the
/// tokens that each has drawn are compared, and `chain`, a digest of what its levels have done (Chain::digest). `own`:
/// a status of this rank alone, 0 to 127. Returns the largest of the ranks', 128 + the number of a signal that came, or
/// 0. Errors: Exit::kInternal, on all ranks, if ranks drew or proposed different tokens.
int agreed_status(const Crew& crew, int own, std::span<const int32_t> round, uint64_t chain);

/// What a process exits with that stops because of an agreed status.
int exit_status(int agreed);

}  // namespace trireme
