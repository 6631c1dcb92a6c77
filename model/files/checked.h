#pragma once
/// Checked: the only arithmetic on numbers from files. It has unsigned 64 bits, and records overflows.

#include <cstdint>

namespace trireme {

class Checked {
  public:
    constexpr Checked(uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): literals mix in

    friend constexpr Checked operator+(Checked a, Checked b) {
        uint64_t r = 0;
        const bool over = __builtin_add_overflow(a.value_, b.value_, &r);
        return Checked(r, a.ok_ && b.ok_ && !over);
    }
    friend constexpr Checked operator-(Checked a, Checked b) {
        uint64_t r = 0;
        const bool over = __builtin_sub_overflow(a.value_, b.value_, &r);
        return Checked(r, a.ok_ && b.ok_ && !over);
    }
    friend constexpr Checked operator*(Checked a, Checked b) {
        uint64_t r = 0;
        const bool over = __builtin_mul_overflow(a.value_, b.value_, &r);
        return Checked(r, a.ok_ && b.ok_ && !over);
    }
    /// The next multiple of `alignment`, a power of two.
    constexpr Checked round_up(uint64_t alignment) const {
        const Checked r = *this + (alignment - 1);
        return Checked(r.value_ & ~(alignment - 1), r.ok_);
    }

    /// True if no operation that led to this value overflowed.
    constexpr bool ok() const { return ok_; }
    /// False after an overflow, whatever the limit.
    constexpr bool at_most(uint64_t limit) const { return ok_ && value_ <= limit; }
    constexpr bool equals(uint64_t other) const { return ok_ && value_ == other; }
    /// Meaningless unless ok().
    constexpr uint64_t value() const { return value_; }

  private:
    constexpr Checked(uint64_t value, bool ok) : value_(value), ok_(ok) {}

    uint64_t value_;
    bool ok_ = true;
};

}  // namespace trireme
