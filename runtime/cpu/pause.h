#pragma once
/// Spin hint to the core: the core's other thread gets more of it, and leaving the loop is no mispredicted branch.

namespace trireme {

inline void spin_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace trireme
