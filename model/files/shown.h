#pragma once
/// Makes names out of files safe to print in messages.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// `name` with control characters written as \xNN; beyond 120 bytes it is cut, not inside a UTF-8 character, and ends
/// in "...".
std::string shown(std::string_view name);

/// Formats extents that have not been checked: "[64, 32]".
std::string dims_text(const std::vector<uint64_t>& dims);

}  // namespace trireme
