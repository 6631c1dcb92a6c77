#pragma once
/// What a run cost: lines for people, JSON for programs. Both use the same name for a metric.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/generate.h"
#include "decode/speculate.h"
#include "launch/run/engine.h"

namespace trireme {

/// What only the rank itself knows.
struct RankFacts {
    std::string host, device;
    int64_t threads = 0;
    uint64_t read_bytes_per_step = 0;    // weights once, and the KV at the mean length
    uint64_t weight_bytes_per_step = 0;  // of them the weights: all but the embedding, unless it is lm_head, too
    uint64_t weight_bytes = 0;           // in memory
    uint64_t kv_bytes = 0;               // of the whole context
    uint64_t device_peak_bytes = 0;      // all that was allocated at once for device memory
    uint64_t peak_rss_bytes = 0;         // of the process, as the kernel counts it
    uint64_t host_kv_bytes = 0;          // of streamed layers, pinned
    uint64_t h2d_bytes = 0;              // of their tiles copied to the device, over the whole run
    uint64_t d2h_bytes = 0;              // and back
    double stall_ms = 0;                 // compute waiting for tiles, over the whole run
    double allreduce_ms = 0;             // in all_reduce, waiting for peers included, over the whole run
};
RankFacts own_facts(const Engine& engine, const GenerateStats& stats);
/// In rank order. A control call.
std::vector<RankFacts> gather_facts(Comm& comm, const RankFacts& mine);

struct RunReport {
    const Invocation& call;
    const Engine& engine;
    const GenerateStats& stats;
    const std::vector<Continuation>& samples;
    std::vector<const Speculate*> levels;  // that checked proposals, the outermost first
    const SpecCosts& costs;                // that draft lengths went by; empty: they were fixed
    std::vector<RankFacts> ranks;
    std::vector<std::string> command_line;
};

/// "2026-01-31T12:00:00Z"
std::string utc_now();

/// A model's shape.
nlohmann::ordered_json model_facts(const LlamaConfig& config);
/// Every flag of the command as a user would write it.
nlohmann::ordered_json shown_settings(const Invocation& call);

std::vector<std::string> report_lines(const RunReport& report);
std::string report_json(const RunReport& report);

}  // namespace trireme
