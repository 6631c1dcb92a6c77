#pragma once
/// Makes names out of files safe to print in messages.

#include <string>
#include <string_view>

namespace trireme {

/// `name` with control characters written as \xNN; beyond 120 bytes it is cut, not inside a UTF-8 character, and ends
/// in "...".
std::string shown(std::string_view name);

}  // namespace trireme
