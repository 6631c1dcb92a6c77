#pragma once
/// Search for the known flag, command or environment variable that a mistyped name was meant to be, for error messages.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the one of `names` with the fewest edits from `wrong`; of equals, the first. Edits are insertions,
/// deletions, replacements and swaps of neighbours. At most a quarter of the letters of `wrong` (at least 1) may be
/// edited, and at most `most`, which has no effect by default. If `wrong` is a known flag followed by '-' or '_' and
/// more letters, that flag wins: --model for --model-name. "": no name is near, or `wrong` has more than 64 letters.
std::string nearest(std::string_view wrong, std::span<const std::string> names, size_t most = SIZE_MAX - 1);

}  // namespace trireme
