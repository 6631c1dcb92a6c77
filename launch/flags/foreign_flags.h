#pragma once
/// Flags of llama.cpp, vLLM and TriForce, and what to use here instead.

#include <span>
#include <string_view>
#include <vector>

namespace trireme {

struct ForeignFlags {
    std::vector<std::string_view> names;  // as on the command line
    std::string_view answer;              // "use ..." or "not supported here: ..."
    /// A flag that changes no result is ignored with a warning; this states which value follows it. kNo: an error.
    enum class Harmless { kNo, kSwitch, kOnOff, kValue } harmless = Harmless::kNo;
};
std::span<const ForeignFlags> foreign_flags();

/// Returns the entry with this spelling, or null.
const ForeignFlags* find_foreign(std::string_view spelling);

}  // namespace trireme
