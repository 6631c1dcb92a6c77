#pragma once
/// In which order a forward reads streamed layers, and which of them stay on the device from their first reader to
/// their last. Pure arithmetic.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// [owners] An owner's number among the streamed ones; -1 where it is on chip. `on_chip` empty: all are.
std::vector<StreamedIndex> number_streamed(int64_t owners, const std::vector<bool>& on_chip);
/// Of the owners that the attentions of a forward read, in order, the streamed ones.
std::vector<StreamedIndex> streamed_reads(std::span<const OwnerIndex> reads, std::span<const StreamedIndex> numbers);

/// Attentions of a forward that follow each other and read one streamed layer.
struct ReadRun {
    StreamedIndex layer;
    int64_t attentions = 0;
    // A held layer lies in a frame, which has room for all of its tiles. The first of its runs in a forward fetches it,
    // and the last one leaves the frame to another layer. -1: its tiles pass through the ring.
    int64_t frame = -1;
    bool first = true, last = true;
    bool held() const { return frame >= 0; }
};

/// The runs of a forward with so many frames. `ring_holds`: the ring has room for all of one layer that a forward
/// reads, so that a run fetches it once; else every attention of the run fetches it. Layers that would cross the link
/// most often get frames. Where not every such layer finds a frame of its own, one frame is left to be filled while the
/// others are read.
std::vector<ReadRun> read_runs(std::span<const StreamedIndex> reads, int64_t frames, bool ring_holds);
/// Frames beyond which none saves a crossing.
int64_t useful_frames(std::span<const StreamedIndex> reads, bool ring_holds);
/// [streamed layers] How often a forward fetches each layer.
std::vector<int64_t> crossings(std::span<const ReadRun> runs, int64_t layers, bool ring_holds);

}  // namespace trireme
