#pragma once
/// Measurements of a bench: every mode continues every text, interleaved.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/speculate.h"
#include "launch/commands/bench_texts.h"
#include "launch/record/run_log.h"
#include "offload/stream/transport.h"

namespace trireme {

/// The measurement of one continuation, or of the mode's parallel samples. Times are in milliseconds.
struct BenchRun {
    int64_t tokens = 0, samples = 1;
    double ttft_ms = 0;    // the prefill, what the chain's other levels read of the prompt, and the first token
    double decode_ms = 0;  // all tokens but the first
    double allreduce_ms = 0;
    LinkUse link;  // during decode_ms

    /// Throughput of all samples together, without the first token of each.
    double tokens_per_s() const { return decode_ms > 0 ? static_cast<double>(tokens - samples) / decode_ms * 1e3 : 0; }
    /// Time between two tokens of a sample.
    double tpot_ms() const {
        return tokens > samples ? decode_ms * static_cast<double>(samples) / static_cast<double>(tokens - samples) : 0;
    }
};

/// Statistics of one level of a mode's chain, over all runs.
struct BenchLevel {
    std::string chain;  // "draft+full"
    SpeculationStats stats;
};

struct BenchResult {
    std::string mode;
    int64_t parallel = 1;                      // samples decoded in parallel
    bool plain = false;                        // no speculation and no eviction: the tokens are the model's own
    bool evicts = false;                       // the cache evicts: tokens may differ from the model's own
    int64_t on_chip = 0, layers = 0;           // owner layers on chip, and all of them
    double prefill_ms = 0;                     // mean over texts
    int64_t passes = 1;                        // the most passes of a prompt over iterated layers
    LinkUse prefill_link;                      // over all texts
    uint64_t kv_bytes = 0;                     // KV memory of all ranks
    std::vector<BenchRun> runs;                // over all texts
    std::vector<BenchLevel> levels;            // outermost first
    SpecCosts costs;                           // that determined draft lengths; empty: none was adaptive
    std::vector<std::vector<int32_t>> tokens;  // of each text, from the first repetition
    /// The first text for which a repetition gave other tokens than the first one; -1: none.
    int64_t unsteady = -1;
};

struct BenchResults {
    std::vector<BenchResult> modes;  // in the requested order; without runs if a signal came before
    int status = 0;                  // 128 + the number of the signal that ended the bench
    /// The error of a residency after the first one. It and those after it were not measured.
    std::optional<AgreedError> refused;
};

/// Runs all modes. All ranks return the same tokens and status; times are each rank's own. Modes of one residency share
/// a level and a prefill of each text. Their runs are interleaved: text by text, repetition by repetition, mode by
/// mode, after one warm-up round. Residencies, eviction policies and numbers of parallel samples follow each other.
/// `log` gets a row of each measured continuation, and its rounds. Errors, for the first residency only: as
/// Engine::load, read_prompt and Chain.
BenchResults run_modes(const Start& start, const RankGroup& rank_group, Engine& engine, const BenchTexts& texts,
                       int64_t n, RunLog& log);

/// The baseline: the first plain mode that has runs. Null: there is none.
const BenchResult* baseline_of(const std::vector<BenchResult>& all);
/// Describes the first difference between the mode's tokens and the baseline's at temperature 0; empty: there is none.
/// Nothing: they are not compared (temperature above 0, no baseline, no runs, or an evicting cache).
std::optional<std::string> difference(const BenchResult& mode, const BenchResult* baseline, bool greedy);

}  // namespace trireme
