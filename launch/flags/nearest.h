#pragma once
/// Which known name a mistyped one was meant to be.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// The name nearest to `wrong` (insertions, deletions, replacements, swaps of neighbours); empty if that differs in
/// more than half of the letters, or in more than `most`. The first of equals.
std::string nearest(std::string_view wrong, std::span<const std::string> names, size_t most = SIZE_MAX - 1);

}  // namespace trireme
