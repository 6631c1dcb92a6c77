#pragma once
/// Record of a finished run, added to a file of run records (--record).

#include <string>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/record/run_log.h"
#include "launch/run/chain.h"
#include "launch/run/engine.h"

namespace trireme {

/// The name of the way in which a run without --modes decodes: "none", "draft+retrieval", or the eviction policy.
std::string mode_name(const Options& options);

struct RecordedRun {
    const Start& start;
    const Engine& engine;
    RunLog& log;
    int status = 0;  // the exit status of the process
    /// For each of the log's modes, in order, the facts of its verifying levels (speculation_facts), outermost first.
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    nlohmann::ordered_json facts = nlohmann::ordered_json::object();  // further facts of the command
};

/// The facts of a chain's levels, for RecordedRun::levels.
nlohmann::ordered_json level_facts(const Chain& chain);

/// Adds the run to the file that --record names; does nothing without it. All ranks pass, or all throw: errors as
/// append_run. If the run's status is not 0, errors only give a warning, and it waits at most a second for other runs.
/// Makes control calls.
void write_record(const RankGroup& rank_group, const RecordedRun& run);
/// Like write_record(), for a run that scores one text of `tokens` tokens, or several (-1), with the result `score`.
void write_score_record(const Start& start, const RankGroup& rank_group, const Engine& engine, int64_t tokens,
                        nlohmann::ordered_json score);

}  // namespace trireme
