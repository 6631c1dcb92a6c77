#pragma once
/// Names out of files, as messages may carry them.

#include <string>
#include <string_view>

namespace trireme {

/// At most 120 bytes, control characters as \xNN, never half a UTF-8 character: a terminal or a log stays what it is.
std::string shown(std::string_view name);

}  // namespace trireme
