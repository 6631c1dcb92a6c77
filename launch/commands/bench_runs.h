#pragma once
/// Measurements of bench: every mode (a chain or an eviction policy) continues every text, interleaved.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/speculate.h"
#include "launch/commands/bench_texts.h"
#include "launch/record/run_log.h"
#include "offload/stream/transport.h"

namespace trireme {

/// The measurement of one continuation, or of the mode's parallel samples together. Times are in milliseconds; times
/// and link traffic are this rank's.
struct BenchRun {
    int64_t tokens = 0, samples = 1;  // tokens of all samples
    double ttft_ms = 0;       // the prefill, what the chain's other levels read of the prompt, and the first token
    double decode_ms = 0;     // all tokens but the first of each sample
    double allreduce_ms = 0;  // in all-reduces of the continuation, including the wait for peers
    LinkUse link;             // during decode_ms

    /// Throughput of all samples together, without the first token of each.
    double tokens_per_s() const { return decode_ms > 0 ? static_cast<double>(tokens - samples) / decode_ms * 1e3 : 0; }
    /// Time between two tokens of a sample.
    double tpot_ms() const {
        return tokens > samples ? decode_ms * static_cast<double>(samples) / static_cast<double>(tokens - samples) : 0;
    }
};

/// Statistics of one verifying level of a mode's chain, over all runs, without the warm-up.
struct BenchLevel {
    std::string chain;  // "draft+full"
    SpeculationStats stats;
};

/// The results of one mode with one number of parallel samples.
struct BenchResult {
    std::string mode;                          // as --modes names it
    int64_t parallel = 1;                      // samples decoded in parallel
    bool plain = false;                        // no speculation and no eviction: the tokens are the model's own
    bool evicts = false;                       // the cache evicts: tokens may differ from the model's own
    int64_t on_chip = 0, layers = 0;           // owner layers on chip, and all of them
    double prefill_ms = 0;                     // mean over texts
    int64_t passes = 1;                        // the most passes of a prefill over iterated layers (model/passes.h)
    LinkUse prefill_link;                      // sum over texts
    uint64_t kv_bytes = 0;                     // KV memory of all ranks, on devices and hosts
    std::vector<BenchRun> runs;                // text by text, repetition by repetition
    std::vector<BenchLevel> levels;            // outermost first; empty: the mode has no chain
    SpecCosts costs;                           // that determined draft lengths; empty: none was adaptive
    std::vector<std::vector<int32_t>> tokens;  // [texts] of the first sample in the first repetition
    /// Index of the first text for which two repetitions gave different tokens; -1: none.
    int64_t unsteady = -1;
};

struct BenchResults {
    /// All modes with the first number of --parallel, then all with the second one, and so on. A mode that was not
    /// measured, because of a signal or an error, has no runs.
    std::vector<BenchResult> modes;
    int status = 0;  // 128 + the number of the signal that ended the bench; 0: none came
    /// Why a residency after the first one could not be loaded. Its modes and all later ones were not measured. Not
    /// set: all were loaded.
    std::optional<AgreedError> refused;
};

/// Runs all modes; each run generates `n` tokens per sample. All ranks return the same tokens and status. Modes with
/// one residency and eviction policy share a level and a prefill of each text. Their runs are interleaved: text by
/// text, repetition by repetition, mode by mode, after one warm-up of each mode. Different residencies, eviction
/// policies and numbers of parallel samples are measured one after the other. `log` receives a row for each measured
/// continuation, and its rounds. Errors, if the first residency cannot be loaded: as Engine::load and Chain.
BenchResults run_modes(const Start& start, const RankGroup& rank_group, Engine& engine, const BenchTexts& texts,
                       int64_t n, RunLog& log);

/// The baseline of speed-ups and of exactness: the first plain mode of `all` that has runs. Null: there is none.
const BenchResult* baseline_of(const std::vector<BenchResult>& all);
/// Describes the first difference between the mode's tokens and the baseline's, or between two repetitions; empty:
/// there is none. Nothing: they are not compared (no `greedy`, which is temperature 0; no baseline, no runs, or an
/// evicting cache, whose repetitions alone are compared).
std::optional<std::string> difference(const BenchResult& mode, const BenchResult* baseline, bool greedy);

}  // namespace trireme
