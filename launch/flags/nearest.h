#pragma once
/// Search for the known name that a mistyped name was meant to be.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the name nearest to `wrong` (insertions, deletions, replacements, swaps of neighbours), the first of equals;
/// "" if it differs by more than a quarter of the letters (at least 1), or by more than `most`. A long name that
/// `wrong` extends with '-' or '_' wins over all: --model for --model-name.
std::string nearest(std::string_view wrong, std::span<const std::string> names, size_t most = SIZE_MAX - 1);

}  // namespace trireme
