#pragma once
/// A run that becomes part of a file of run records (--record).

#include <string>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/record/run_log.h"
#include "launch/run/chain.h"
#include "launch/run/engine.h"

namespace trireme {

/// How a run without --modes decodes: "none", "draft+retrieval", or the policy of bounded KV.
std::string mode_name(const Options& options);

struct RecordedRun {
    const Start& start;
    const Engine& engine;
    RunLog& log;
    int status = 0;  // what the process will exit with
    /// Of the log's modes, in order, what their levels have checked, the outermost first (speculation_facts).
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    nlohmann::ordered_json facts = nlohmann::ordered_json::object();  // what else the command has to say
};

/// The facts of a chain's levels, for RecordedRun::levels.
nlohmann::ordered_json level_facts(const Chain& chain);

/// Adds the run to the file that --record names; nothing without it. All ranks pass, or all throw: errors as
/// append_run. A run whose status is not 0 keeps it, waits for others a second at most, and only warns. Makes control
/// calls.
void write_record(const Crew& crew, const RecordedRun& run);
/// The same for a run that only computes what tokens were worth: one text of so many, or -1 of several; `score` is what
/// came of it.
void write_score_record(const Start& start, const Crew& crew, const Engine& engine, int64_t tokens,
                        nlohmann::ordered_json score);

}  // namespace trireme
