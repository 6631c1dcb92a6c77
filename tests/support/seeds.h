#pragma once
/// The number of seeds of a property test.

#include <cstdint>
#include <cstdlib>

namespace trireme::test {

/// Returns `usual`, or TRIREME_TEST_SEEDS if that is set (tests/full.sh).
inline int64_t test_seeds(int64_t usual) {
    const char* many = std::getenv("TRIREME_TEST_SEEDS");
    return many == nullptr ? usual : std::atoll(many);
}

}  // namespace trireme::test
