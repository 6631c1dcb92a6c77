#pragma once
/// A bench's measurements: every mode continues every text, by turns.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/speculate.h"
#include "launch/commands/bench_texts.h"
#include "launch/record/run_log.h"
#include "offload/stream/transport.h"

namespace trireme {

/// One continuation, or as many samples side by side as the mode has. Times in milliseconds.
struct BenchRun {
    int64_t tokens = 0, samples = 1;
    double ttft_ms = 0;    // the prefill, what the chain's own levels read of the prompt, and the first token
    double decode_ms = 0;  // all tokens but the first
    double allreduce_ms = 0;
    LinkUse link;  // of decode_ms

    /// Of all samples together, but for each one's first token.
    double tokens_per_s() const { return decode_ms > 0 ? static_cast<double>(tokens - samples) / decode_ms * 1e3 : 0; }
    /// Between two tokens of a sample.
    double tpot_ms() const {
        return tokens > samples ? decode_ms * static_cast<double>(samples) / static_cast<double>(tokens - samples) : 0;
    }
};

/// One level of a mode's chain, over all runs.
struct BenchLevel {
    std::string chain;  // "draft+full"
    SpeculationStats stats;
};

struct BenchResult {
    std::string mode;
    int64_t parallel = 1;                      // samples side by side
    bool plain = false;                        // nothing is proposed: the tokens are the model's own
    bool bounded = false;                      // some tokens are kept: others than the model's own may follow
    int64_t on_chip = 0, layers = 0;           // whose keys and values
    double prefill_ms = 0;                     // mean over texts
    int64_t passes = 1;                        // of the prompts over iterated layers, at most
    LinkUse prefill_link;                      // of all texts
    uint64_t kv_bytes = 0;                     // memory of keys and values, of all ranks
    std::vector<BenchRun> runs;                // of all texts
    std::vector<BenchLevel> levels;            // the outermost first
    SpecCosts costs;                           // that its draft lengths went by; empty: none adapted
    std::vector<std::vector<int32_t>> tokens;  // behind each text, the first time
    /// The first text at which a repetition gave other tokens than the first time; -1: none.
    int64_t unsteady = -1;
};

struct BenchResults {
    std::vector<BenchResult> modes;  // as they were asked for; without runs where a signal came before
    int status = 0;                  // 128 + the number of the signal that ended it
    /// Why a residency behind the first one was not measured, nor any behind it.
    std::optional<AgreedError> refused;
};

/// All ranks return the same tokens and status; times are each rank's own. Modes of one residency share a level, a
/// prefill of each text, and turns: text by text, repetition by repetition, mode by mode, after one round to warm up.
/// Residencies, policies of what is kept, and numbers of samples side by side follow each other. Errors, of the first
/// of them: as Engine::load, read_prompt and Chain.
/// `log` gets a row of each measured continuation, and its rounds.
BenchResults run_modes(const Start& start, const Crew& crew, Engine& engine, const BenchTexts& texts, int64_t n,
                       RunLog& log);

/// The autoregressive row: the first plain mode that has runs. Null: there is none.
const BenchResult* baseline_of(const std::vector<BenchResult>& all);
/// At temperature 0: where the mode's tokens differ from the baseline's, in words; empty: nowhere. Nothing: there is
/// nothing to compare, or some of the text was not kept.
std::optional<std::string> difference(const BenchResult& mode, const BenchResult* baseline, bool greedy);

}  // namespace trireme
