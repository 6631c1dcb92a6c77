#pragma once
/// The order in which a forward reads streamed layers, and the layers that the device holds from their first reader to
/// their last. Pure arithmetic.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// [owners] An owner's number among the streamed ones; -1 if it is on chip. `on_chip` empty: all are.
std::vector<StreamedIndex> number_streamed(int64_t owners, const std::vector<bool>& on_chip);
/// The streamed layers among the owners that a forward's attentions read, in order.
std::vector<StreamedIndex> streamed_reads(std::span<const OwnerIndex> reads, std::span<const StreamedIndex> numbers);

/// Consecutive attentions of a forward that read one streamed layer.
struct ReadRun {
    StreamedIndex layer;
    int64_t attentions = 0;
    // A held layer is stored in a frame, which has room for all of its tiles. The first of its runs in a forward
    // fetches it, and the last one frees the frame. -1: its tiles pass through the ring.
    int64_t frame = -1;
    bool first = true, last = true;
    bool held() const { return frame >= 0; }
};

/// The runs of a forward with `frames` frames. `ring_holds`: the ring has room for all that a forward reads of a layer,
/// so that a run fetches it once; otherwise every attention of the run fetches it. Layers that would cross the link
/// most often get frames. If there are more such layers than frames, one frame is left free, to be filled while the
/// others are read.
std::vector<ReadRun> read_runs(std::span<const StreamedIndex> reads, int64_t frames, bool ring_holds);
/// The number of frames beyond which another one saves no crossing.
int64_t useful_frames(std::span<const StreamedIndex> reads, bool ring_holds);
/// [streamed layers] How often a forward fetches each layer.
std::vector<int64_t> crossings(std::span<const ReadRun> runs, int64_t layers, bool ring_holds);

}  // namespace trireme
