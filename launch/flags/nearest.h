#pragma once
/// Which known name a mistyped one was meant to be.

#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// The name nearest to `wrong` (insertions, deletions, replacements, swaps of neighbours); empty if that differs in
/// more than half of the letters. The first of equals.
std::string nearest(std::string_view wrong, std::span<const std::string> names);

}  // namespace trireme
