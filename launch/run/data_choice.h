#pragma once
/// Selection of texts, pairs or requests from a data set: --shuffle, then --skip, then --limit.

#include <cstdint>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// Selects from `n` elements: returns indices below n, in the order in which the run takes them. A seed gives the same
/// order on every machine: for i = 0, 1, ... element i of 0, 1, ... n - 1 is swapped with element i + floor(u (n - i)),
/// u = uniform(seed, {sample = i, purpose = shuffle}) (Fisher-Yates). `where` names the data set and `unit` its
/// elements ("texts"), for messages. Errors: Exit::kConfig if --skip leaves none of n > 0.
std::vector<int64_t> chosen(int64_t n, const DataChoice& choice, std::string_view where, std::string_view unit);

}  // namespace trireme
