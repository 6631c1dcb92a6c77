#pragma once
/// Every mutant of the GPU kernels in one program: which of them is alive is told by TRIREME_MUTANT. The generated
/// copies of the kernels (mutants.py) call these where the originals have an operator, a number, a barrier, an index.
///
/// A program of TRIREME_MUTANT_GROUP g can bring to life only the numbers of that group: code that no living mutant may
/// touch is as fast as the original (README.md).

#include <cstdlib>

namespace trireme::mutants {

/// 0: none.
inline const int alive = std::getenv("TRIREME_MUTANT") ? std::atoi(std::getenv("TRIREME_MUTANT")) : 0;

inline constexpr int kGroup = 40;  // numbers of a group
constexpr bool may_live(int number) {
#ifdef TRIREME_MUTANT_GROUP
    return number / kGroup == TRIREME_MUTANT_GROUP;
#else
    return true;
#endif
}
inline bool is(int number) {
    return may_live(number) && alive == number;
}
/// Added to a number.
inline int one(int number) {
    return is(number) ? 1 : 0;
}

/// `a < Compare<7, '<'>() > b` is a < b, or what mutant 7 makes of it; likewise with ==.
template <int kNumber, char kOp>
struct Compare {};
template <class A, int kNumber, char kOp>
struct Left {
    A a;
    template <class B>
    bool operator>(const B& b) const {
        return decide(b);
    }
    template <class B>
    bool operator==(const B& b) const {
        return decide(b);
    }
    template <class B>
    bool decide(const B& b) const {
        const bool mutated = is(kNumber);
        if constexpr (kOp == '<') return mutated ? a <= b : a < b;
        if constexpr (kOp == 'l') return mutated ? a < b : a <= b;
        if constexpr (kOp == '>') return mutated ? a >= b : a > b;
        if constexpr (kOp == 'g') return mutated ? a > b : a >= b;
        if constexpr (kOp == '=') return mutated ? a != b : a == b;
        if constexpr (kOp == '!') return mutated ? a == b : a != b;
    }
};
template <class A, int kNumber, char kOp>
Left<A, kNumber, kOp> operator<(const A& a, Compare<kNumber, kOp>) {
    return {a};
}
template <class A, int kNumber, char kOp>
Left<A, kNumber, kOp> operator==(const A& a, Compare<kNumber, kOp>) {
    return {a};
}

}  // namespace trireme::mutants
