#pragma once
/// Flags that people know from llama.cpp, vLLM and TriForce, and what to use here instead.

#include <span>
#include <string_view>
#include <vector>

namespace trireme {

struct ForeignFlags {
    std::vector<std::string_view> names;  // as on the command line
    std::string_view answer;              // "use ..." or "not supported here: ..."
    /// What stands after it. Of a flag whose absence changes no result, which is ignored with a warning.
    enum class Harmless { kNo, kSwitch, kOnOff, kValue } harmless = Harmless::kNo;
};
std::span<const ForeignFlags> foreign_flags();

/// What is known of this spelling; null: nothing.
const ForeignFlags* find_foreign(std::string_view spelling);

}  // namespace trireme
