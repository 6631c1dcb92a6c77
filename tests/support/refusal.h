#pragma once
/// refusal(): the error of a call as text.

#include <string>

#include "runtime/error.h"

namespace trireme::test {

/// Returns "CODE message" of the Error that `work` throws, else "accepted".
template <class F>
std::string refusal(F work) {
    try {
        work();
    } catch (const Error& e) {
        return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
    }
    return "accepted";
}

}  // namespace trireme::test
