#pragma once
/// Which texts of a data set a run takes, and in which order: --shuffle, then --skip, then --limit.

#include <cstdint>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// Indices below `n`, in the order in which the run takes them. A seed is one order, on every machine: place i of
/// 0, 1, ... n - 1 changes with place i + floor(u (n - i)), u = uniform(seed, {sample = i, purpose = shuffle}), for
/// i = 0, 1, ... (Fisher-Yates). `where` names the data set, `unit` what it has ("texts"), for messages. Errors:
/// Exit::kConfig where --skip leaves nothing of n > 0.
std::vector<int64_t> chosen(int64_t n, const DataChoice& choice, std::string_view where, std::string_view unit);

}  // namespace trireme
