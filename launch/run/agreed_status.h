#pragma once
/// What ranks agree on once a round.

#include <cstdint>
#include <span>

#include "launch/run/crew.h"

namespace trireme {

/// The one control message of a round: whether to stop, since a signal may reach ranks in different rounds; and the
/// tokens that each has drawn are compared. `own`: a status of this rank alone, 0 to 127. Returns the largest of the
/// ranks', 128 + the number of a signal that came, or 0. Errors: Exit::kInternal if ranks drew different tokens.
int agreed_status(const Crew& crew, int own, std::span<const int32_t> round);

}  // namespace trireme
