#pragma once
/// Trace file of a run (--trace), for ui.perfetto.dev.

#include "launch/flags/options.h"
#include "launch/run/rank_group.h"

namespace trireme {

/// Gathers the spans of all ranks, and writes them to the file that --trace names; does nothing without it. All ranks
/// pass, or all throw: errors as write_file_atomically. Makes control calls.
void write_trace(const Options& options, const RankGroup& rank_group);

}  // namespace trireme
