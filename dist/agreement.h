#pragma once
/// require_agreement(): compares the settings of all ranks, so that ranks with different ones fail before they compute.

#include <string>
#include <utility>
#include <vector>

#include "dist/comm.h"

namespace trireme {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// Returns if every rank passes the same pairs in the same order. A control call (comm.h). Errors: AgreedError,
/// Exit::kConfig, naming the first rank that differs from most, and its differences: "rank 3 differs: context=8192
/// (others 32768)".
void require_agreement(Comm& comm, const KeyValues& mine);

/// Returns the message of require_agreement(), or "" if all ranks agree. `all` is indexed by rank.
std::string first_difference(const std::vector<KeyValues>& all);

}  // namespace trireme
