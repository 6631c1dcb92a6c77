#pragma once
/// ReadRun: consecutive attentions of a forward that read one streamed layer. Runs decide which layers stay in a frame
/// (device memory for all of a layer's tiles) from their first to their last attention, and which pass through the
/// ring. TileRing and memory plans use them. Pure arithmetic.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// Returns, for each owner layer, its number among the streamed layers, or -1 if it is on chip. An empty `on_chip`
/// means that all are on chip.
std::vector<StreamedIndex> number_streamed(int64_t owners, const std::vector<bool>& on_chip);
/// `reads`: the owner that each attention of a forward reads, in order. Returns those that are streamed, by `numbers`
/// (number_streamed), in the same order.
std::vector<StreamedIndex> streamed_reads(std::span<const OwnerIndex> reads, std::span<const StreamedIndex> numbers);

struct ReadRun {
    StreamedIndex layer;
    int64_t attentions = 0;
    // The number of the frame that holds the layer. The first of its runs in a forward fetches it, and the last one
    // frees the frame. -1: its tiles pass through the ring.
    int64_t frame = -1;
    bool first = true, last = true;  // whether it is the layer's first, or last, run; meaningful for held layers only
    bool held() const { return frame >= 0; }
};

/// The runs of a forward with `frames` frames. `ring_holds`: the ring has room for all that a forward reads of a layer,
/// so that a run fetches it once; otherwise every attention of the run fetches it. Frames go to the layers for which
/// they save most fetches. If more layers need one than there are frames, one of several frames is left free, so that
/// the next layer can be fetched into it.
std::vector<ReadRun> read_runs(std::span<const StreamedIndex> reads, int64_t frames, bool ring_holds);
/// The number of frames beyond which another one saves no fetch. Arguments as in read_runs().
int64_t useful_frames(std::span<const StreamedIndex> reads, bool ring_holds);
/// Returns [streamed layers]: how often a forward fetches each of `layers` streamed layers.
std::vector<int64_t> crossings(std::span<const ReadRun> runs, int64_t layers, bool ring_holds);

}  // namespace trireme
