#pragma once
/// What the program does, a function each. All ranks call them alike; rank 0 writes to stdout.

#include <string>
#include <vector>

#include "launch/flags/command_line.h"
#include "launch/run/crew.h"

namespace trireme {

/// What a command needs to know of how it was started.
struct Start {
    Invocation call;
    bool seed_drawn = false;                // call.options.seed is not the user's choice
    std::vector<std::string> command_line;  // as reports show it
    int threads = 1;                        // of this rank
    int local_rank = 0, local_ranks = 1;    // ranks of this node, this one included: they divide its memory and cards
    std::string placement;                  // which cores it got, and why
};

void run_generate(const Start& start, const Crew& crew);
/// generate --session.
void run_session(const Start& start, const Crew& crew);
void run_batch(const Start& start, const Crew& crew);
void run_bench(const Start& start, const Crew& crew);
void run_score(const Start& start, const Crew& crew);
void run_tokenize(const Start& start, const Crew& crew);
void run_plan(const Start& start, const Crew& crew);
void run_doctor(const Start& start, const Crew& crew);
void run_convert(const Start& start, const Crew& crew);
/// Becomes the script that draws records, after their bytes have been confirmed. No rank is needed: returns only by
/// throwing. Errors: as open_record; Exit::kUnavailable without Python, or without the script.
[[noreturn]] void run_report(const Options& options);
/// A line for each device that --device may name.
std::string list_devices();

/// "[1,2,3]"
std::string ids_as_json(const std::vector<int32_t>& ids);

}  // namespace trireme
