#pragma once
/// Commands of the program, one function each. All ranks call the same one; rank 0 writes to stdout.

#include <string>
#include <vector>

#include "launch/flags/command_line.h"
#include "launch/run/rank_group.h"

namespace trireme {

/// The invocation, and the rank's placement, as a command gets them.
struct Start {
    Invocation call;
    bool seed_drawn = false;                // call.options.seed is not the user's choice
    std::vector<std::string> command_line;  // for reports
    int threads = 1;                        // of this rank
    int local_rank = 0, local_ranks = 1;    // ranks of this node, including this one: they divide its memory and GPUs
    std::string placement;                  // this rank's cores, and the reason
};

void run_generate(const Start& start, const RankGroup& rank_group);
/// generate --session.
void run_session(const Start& start, const RankGroup& rank_group);
void run_batch(const Start& start, const RankGroup& rank_group);
void run_bench(const Start& start, const RankGroup& rank_group);
void run_score(const Start& start, const RankGroup& rank_group);
void run_tokenize(const Start& start, const RankGroup& rank_group);
void run_plan(const Start& start, const RankGroup& rank_group);
void run_doctor(const Start& start, const RankGroup& rank_group);
void run_convert(const Start& start, const RankGroup& rank_group);
/// convert --tokens.
void run_convert_tokens(const Start& start, const RankGroup& rank_group);
/// Verifies the digests of the record files, then executes the script that draws them. It needs no ranks, and returns
/// only by throwing. Errors: as open_record; Exit::kUnavailable without Python, or without the script.
[[noreturn]] void run_report(const Options& options);
/// Returns a line for each device that --device may name.
std::string list_devices();

/// Returns "[1,2,3]".
std::string ids_as_json(const std::vector<int32_t>& ids);

}  // namespace trireme
