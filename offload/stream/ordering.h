#pragma once
/// Ordering: makes work on one of a rank's four streams wait for work on another. Vector clocks record what each
/// stream has already waited for. A wait that would add nothing is not enqueued, so every wait that is enqueued is
/// needed. Only synchronize() blocks the host.

#include <array>
#include <cstdint>
#include <span>

#include "runtime/index.h"
#include "runtime/stream.h"

namespace trireme {

/// The streams: kernels, copies from host to device, copies from device to host; coding and decoding of tiles.
enum class Lane : uint8_t { kCompute, kH2d, kD2h, kCodec };

class Ordering {
  public:
    static constexpr size_t kLanes = 4;
    using Clock = std::array<uint64_t, kLanes>;  // [lane] the number of its marks that are known to be reached

    /// A point in a lane's work. `reached`: the marks of all lanes that are reached when this one is. A
    /// default-constructed mark counts as reached.
    struct Mark {
        Event event, before;  // events of this mark, and of the lane's mark before it
        Clock reached{};
    };

    /// `codec`: null if no tile is coded; lane kCodec is then not used.
    Ordering(Stream& compute, Stream& h2d, Stream& d2h, Stream* codec = nullptr)
        : streams_{&compute, &h2d, &d2h, codec} {}

    Stream& stream(Lane lane) const { return *streams_[index(lane)]; }
    /// A mark after everything enqueued on the lane so far; the previous mark again if nothing was enqueued since.
    Mark record(Lane lane);
    /// Work that is enqueued on the lane from here on starts after the mark is reached. `what` (a string literal) names
    /// the waiting time in traces.
    void wait(Lane lane, const Mark& mark, const char* what = "wait");
    /// Like wait(), for several marks, with as few waits as possible.
    void wait_all(Lane lane, std::span<const Mark> marks, const char* what = "wait");

    /// Blocks the host until a mark of the lane is reached. Errors: those of its stream. All work that is enqueued from
    /// here on, on any lane, starts after it.
    void synchronize(Lane lane, const Mark& mark);

    /// For tests. waits() is the number of waits enqueued so far. slip() sets a fault at one of them (counted from 0),
    /// as if a line of the program were missing. kNoWait leaves the wait out; kNoRecord waits for the lane's previous
    /// mark instead.
    enum class Slip : uint8_t { kNone, kNoWait, kNoRecord };
    int64_t waits() const { return waits_; }
    void slip(int64_t wait, Slip how) {
        slip_at_ = wait;
        slip_ = how;
    }

  private:
    std::array<Stream*, kLanes> streams_;
    std::array<Clock, kLanes> known_{};
    std::array<Mark, kLanes> last_{};  // the last mark of each lane
    int64_t waits_ = 0, slip_at_ = -1;
    Slip slip_ = Slip::kNone;
};

}  // namespace trireme
