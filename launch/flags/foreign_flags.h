#pragma once
/// Flags that people know from llama.cpp, vLLM and TriForce, and what to use here instead.

#include <span>
#include <string_view>
#include <vector>

namespace trireme {

struct ForeignFlags {
    std::vector<std::string_view> names;  // as on the command line
    std::string_view answer;              // "use ..." or "not supported: ..."
};
std::span<const ForeignFlags> foreign_flags();

/// The answer for this spelling; empty: not known.
std::string_view foreign_answer(std::string_view spelling);

}  // namespace trireme
