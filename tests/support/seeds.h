#pragma once
/// How often a property is looked at.

#include <cstdint>
#include <cstdlib>

namespace trireme::test {

/// `usual` seeds in every run, TRIREME_TEST_SEEDS in tests/full.sh.
inline int64_t test_seeds(int64_t usual) {
    const char* many = std::getenv("TRIREME_TEST_SEEDS");
    return many == nullptr ? usual : std::atoll(many);
}

}  // namespace trireme::test
