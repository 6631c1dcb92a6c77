#pragma once
/// Report of the times and memory of a run of generate: log lines for users, JSON (--report-json) for programs. A
/// metric has the same name in both. --session has a report of its own.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/generate.h"
#include "decode/speculate.h"
#include "launch/run/chain.h"
#include "launch/run/engine.h"

namespace trireme {

/// Figures that each rank measures itself.
struct RankFacts {
    std::string host, device;
    int64_t threads = 0;
    uint64_t read_bytes_per_step = 0;    // by a decode step: weights once, and the KV at the mean length
    uint64_t weight_bytes_per_step = 0;  // the weights among them: all but the embedding, unless it is also lm_head
    uint64_t weight_bytes = 0;           // in memory
    uint64_t kv_bytes = 0;               // of a sequence that fills the context
    uint64_t device_peak_bytes = 0;      // most device memory allocated at one time
    uint64_t peak_rss_bytes = 0;         // of the process, as counted by the kernel
    uint64_t host_kv_bytes = 0;          // KV memory of streamed layers, pinned
    uint64_t h2d_bytes = 0;              // tiles of streamed layers copied to the device, over the whole run
    uint64_t d2h_bytes = 0;              // tiles copied to the host, over the whole run
    double stall_ms = 0;                 // time that compute waited for tiles, over the whole run
    double allreduce_ms = 0;             // time in all_reduce, including the wait for peers, over the whole run
};
/// Returns this rank's facts.
RankFacts own_facts(const Engine& engine, const GenerateStats& stats);
/// Gathers the facts of all ranks, in rank order. A control call.
std::vector<RankFacts> gather_facts(Comm& comm, const RankFacts& mine);

/// The data of a report. Except `ranks`, it is this rank's.
struct RunReport {
    const Invocation& call;
    const Engine& engine;
    const GenerateStats& stats;
    const std::vector<Continuation>& samples;
    std::vector<ChainLevel> levels;  // verifying levels, outermost first
    const SpecCosts& costs;          // that determined draft lengths; empty: lengths were fixed
    std::vector<RankFacts> ranks;    // by rank
    std::vector<std::string> command_line;
};

/// The current time as "2026-01-31T12:00:00Z".
std::string utc_now();

/// A model's name and shape, as an object.
nlohmann::ordered_json model_facts(const LlamaConfig& config);
/// The value of every flag of the command, as a user would write it: {"temp": "0", ...}.
nlohmann::ordered_json shown_settings(const Invocation& call);
/// Names of the command's flags whose values differ from the defaults.
nlohmann::ordered_json changed_settings(const Invocation& call);

/// Returns a line for each of these levels.
std::vector<std::string> acceptance_lines(const std::vector<ChainLevel>& levels);
/// Returns the log lines.
std::vector<std::string> report_lines(const RunReport& report);
/// Returns the text of --report-json (docs/reference/report-json.md).
std::string report_json(const RunReport& report);

}  // namespace trireme
