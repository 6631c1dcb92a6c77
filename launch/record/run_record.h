#pragma once
/// Record of a finished run: settings, machine and RunLog, added to a file of run records (--record).

#include <string>

#include <nlohmann/json.hpp>

#include "launch/record/run_log.h"
#include "launch/run/chain.h"
#include "launch/run/engine.h"
#include "launch/run/start.h"

namespace trireme {

/// The name that RunLog::mode() receives in a run without --modes: the eviction policy, else --spec ("none").
std::string mode_name(const Options& options);

/// Arguments of write_record(). Rank 0's are written, with the log's link rows of all ranks.
struct RecordedRun {
    const Start& start;
    const Engine& engine;
    RunLog& log;
    int status = 0;  // the exit status of the process
    /// For each of the log's modes, in order, the facts of its verifying levels (speculation_facts), outermost first.
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    nlohmann::ordered_json facts = nlohmann::ordered_json::object();  // further members of the record, by command
};

/// The facts of a chain's levels, for RecordedRun::levels.
nlohmann::ordered_json level_facts(const std::vector<ChainLevel>& levels);

/// Closes the log, and adds the run to the file that --record names; does nothing without it. Another run that writes
/// the file is waited for, at most a minute. All ranks pass, or all throw: errors as append_run. If the run's status is
/// not 0, it waits at most a second, and errors only give a warning. Makes control calls.
void write_record(const RankGroup& rank_group, const RecordedRun& run);
/// Like write_record(), for a run of score, which has no rounds. `tokens`: of all texts together; -1: it scored pairs.
/// `score`: the result.
void write_score_record(const Start& start, const RankGroup& rank_group, const Engine& engine, int64_t tokens,
                        nlohmann::ordered_json score);

}  // namespace trireme
