#pragma once
/// Ranks that were started with different settings find out before they compute.

#include <string>
#include <utility>
#include <vector>

#include "dist/comm.h"

namespace trireme {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

/// Returns if every rank gave the same pairs in the same order. A control call.
/// Errors: AgreedError, Exit::kConfig, with the first rank that differs from most, and in what:
/// "rank 3 differs: context=8192 (others 32768)".
void require_agreement(Comm& comm, const KeyValues& mine);

/// What require_agreement reports; empty if all agree. `all` by rank.
std::string first_difference(const std::vector<KeyValues>& all);

}  // namespace trireme
