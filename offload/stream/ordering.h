#pragma once
/// Which work of the three streams is done before which. A wait that says nothing new is not enqueued, so every one
/// that is enqueued is needed.

#include <array>
#include <cstdint>
#include <span>

#include "runtime/stream.h"

namespace trireme {

enum class Lane : uint8_t { kCompute, kH2d, kD2h };

class Ordering {
  public:
    static constexpr size_t kLanes = 3;
    using Clock = std::array<uint64_t, kLanes>;  // of each lane: how many of its marks are known to be reached

    /// A point in a lane's past and all that is done by then. A default-made mark has always been reached.
    struct Mark {
        Event event, before;  // this point's, and the lane's mark before it
        Clock reached{};
    };

    Ordering(Stream& compute, Stream& h2d, Stream& d2h) : streams_{&compute, &h2d, &d2h} {}

    Stream& stream(Lane lane) const { return *streams_[static_cast<size_t>(lane)]; }
    /// The point after everything enqueued on the lane so far; the same again where nothing was enqueued since.
    Mark record(Lane lane);
    /// What is enqueued on the lane from here on starts after the mark. `what` (a literal) is the span of the waiting.
    void wait(Lane lane, const Mark& mark, const char* what = "wait");
    /// The same for several marks, as few waits as that takes.
    void wait_all(Lane lane, std::span<const Mark> marks, const char* what = "wait");

    /// For tests: waits enqueued so far, and one of them that goes wrong, as if a line of the program were missing.
    enum class Slip : uint8_t { kNone, kNoWait, kNoRecord };
    int64_t waits() const { return waits_; }
    void slip(int64_t wait, Slip how) {
        slip_at_ = wait;
        slip_ = how;
    }

  private:
    std::array<Stream*, kLanes> streams_;
    std::array<Clock, kLanes> known_{};
    std::array<Mark, kLanes> last_{};  // of each lane
    int64_t waits_ = 0, slip_at_ = -1;
    Slip slip_ = Slip::kNone;
};

}  // namespace trireme
