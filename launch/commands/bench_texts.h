#pragma once
/// The texts that a bench's modes continue.

#include <cstdint>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/run/engine.h"

namespace trireme {

struct BenchTexts {
    std::vector<std::vector<int32_t>> ids;  // of each text; all of one length where there are several
    int64_t left_out = 0;                   // texts that are shorter than --prefill
    int64_t tokens() const { return static_cast<int64_t>(ids.front().size()); }
};

/// Rank 0 reads what --prompt, --file, --prompt-ids, --data or --dataset name, takes of it what
/// --shuffle, --skip and --limit say, cuts it to --prefill tokens and sends it
/// to the others. All ranks pass, or all throw: errors of the sources; Exit::kUsage for several texts without
/// --prefill; kConfig where none is long enough, and for `n` tokens behind it that exceed the longest context.
BenchTexts read_bench_texts(const Start& start, const Crew& crew, const Engine& engine, int64_t n);

}  // namespace trireme
