#pragma once
/// The types of blocks, for tests of all of them.

#include <array>

#include "runtime/stored_type.h"

namespace trireme::test {

inline constexpr size_t kQuantisedTypes = kStoredTypes - static_cast<size_t>(StoredType::kQ4_0);
/// All quantised types.
inline constexpr auto kQuantised = [] {
    std::array<StoredType, kQuantisedTypes> types{};
    for (size_t i = 0; i < types.size(); ++i) {
        types[i] = static_cast<StoredType>(static_cast<size_t>(StoredType::kQ4_0) + i);
    }
    return types;
}();
static_assert(kQuantised.size() == 15 && is_quantised(kQuantised.front()));

}  // namespace trireme::test
