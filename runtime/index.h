#pragma once
/// index(): an integer or enumerator as an index of a container.

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace trireme {

/// `i` is not negative.
template <class T>
requires std::integral<T> || std::is_enum_v<T>
constexpr size_t index(T i) {
    return static_cast<size_t>(i);
}

}  // namespace trireme
