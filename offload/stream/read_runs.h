#pragma once
/// ReadRun: consecutive attentions of a forward that read one streamed layer. Runs decide which layers stay in a device
/// frame from their first to their last attention, and which pass the ring. Pure arithmetic.

#include <cstdint>
#include <span>
#include <vector>

#include "offload/index.h"

namespace trireme {

/// Returns, for each owner layer, its number among the streamed layers, or -1 if it is on chip. An empty `on_chip`
/// means that all are on chip.
std::vector<StreamedIndex> number_streamed(int64_t owners, const std::vector<bool>& on_chip);
/// The streamed layers among the owners that a forward's attentions read, in order.
std::vector<StreamedIndex> streamed_reads(std::span<const OwnerIndex> reads, std::span<const StreamedIndex> numbers);

struct ReadRun {
    StreamedIndex layer;
    int64_t attentions = 0;
    // A held layer is stored in a frame, which has room for all of its tiles. The first of its runs in a forward
    // fetches it, and the last one frees the frame. -1: its tiles pass through the ring.
    int64_t frame = -1;
    bool first = true, last = true;  // meaningful for held layers only
    bool held() const { return frame >= 0; }
};

/// The runs of a forward with `frames` frames. `ring_holds`: the ring has room for all that a forward reads of a layer,
/// so that a run fetches it once; otherwise every attention of the run fetches it. Frames go to the layers for which
/// they save most fetches. If more layers need one than there are frames, one of several frames is left free, so that
/// the next layer can be fetched into it.
std::vector<ReadRun> read_runs(std::span<const StreamedIndex> reads, int64_t frames, bool ring_holds);
/// The number of frames beyond which another one saves no fetch.
int64_t useful_frames(std::span<const StreamedIndex> reads, bool ring_holds);
/// [streamed layers] How often a forward fetches each layer.
std::vector<int64_t> crossings(std::span<const ReadRun> runs, int64_t layers, bool ring_holds);

}  // namespace trireme
