#pragma once
/// All mutants of a set of files in one program: TRIREME_MUTANT selects the one that is alive. The generated copies of
/// these files (mutants.py) call these functions in place of an operator, a number, a barrier or an index.
///
/// A program of TRIREME_MUTANT_GROUP g can only make mutants of that group alive: code that no living mutant may change
/// is as fast as the original (README.md).

#include <cstdlib>

namespace trireme::mutants {

/// The number of the living mutant; 0: none.
inline const int alive = std::getenv("TRIREME_MUTANT") ? std::atoi(std::getenv("TRIREME_MUTANT")) : 0;

inline constexpr int kGroup = 40;  // mutants of a group
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
/// Added to a number that has a mutant.
inline int one(int number) {
    return is(number) ? 1 : 0;
}

/// `a < Compare<7, '<'>() > b` is a < b, or mutant 7 of it; likewise with ==.
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
