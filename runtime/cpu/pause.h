#pragma once
/// spin_pause(): a hint to the core, for loops that poll a value. The core's other hardware thread gets more of the
/// core, and leaving the loop is no mispredicted branch.

namespace trireme {

inline void spin_pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace trireme
