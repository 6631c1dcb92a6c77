#pragma once
/// Foreign flags: flags of llama.cpp, vLLM and TriForce that this program lacks, and what to use instead. The parser of
/// the command line (sources.h) uses them for hints.

#include <span>
#include <string_view>
#include <vector>

namespace trireme {

/// Flags with one answer.
struct ForeignFlags {
    std::vector<std::string_view> names;  // as on the command line, with dashes
    std::string_view answer;              // for the message: "use ..." or "not supported here: ..."
    /// kNo: the flag is an error. Others: it changes no result, and is ignored with a warning. Then kSwitch has no
    /// value after it, kOnOff may have on, off, auto, 0 or 1, and kValue any value.
    enum class Harmless { kNo, kSwitch, kOnOff, kValue } harmless = Harmless::kNo;
};
std::span<const ForeignFlags> foreign_flags();

/// Returns the entry with this spelling (same_spelling), or null.
const ForeignFlags* find_foreign(std::string_view spelling);

}  // namespace trireme
