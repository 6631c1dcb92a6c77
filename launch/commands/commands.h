#pragma once
/// Commands of the program: each run_*() executes one, from its flags to its output. All ranks call the same one,
/// except run_report(), run_evaluate() and list_devices(), which rank 0 calls alone. Rank 0 writes to stdout.

#include <string>

#include "launch/run/rank_group.h"
#include "launch/run/start.h"

namespace trireme {

/// Continues one prompt and prints the text; with --num-samples, several continuations.
void run_generate(const Start& start, const RankGroup& rank_group);
/// generate --session: answers the turns of a conversation, one after the other. Called by run_generate().
void run_session(const Start& start, const RankGroup& rank_group);
/// A conversation in the terminal.
void run_chat(const Start& start, const RankGroup& rank_group);
/// Continues every prompt of a file, and writes one result line for each.
void run_batch(const Start& start, const RankGroup& rank_group);
/// Answers requests on stdin, a JSON object a line, until it ends: continuations, log probabilities, token ids.
void run_pipe(const Start& start, const RankGroup& rank_group);
/// Measures the speed of decoding modes on the same prompts, and prints a table.
void run_bench(const Start& start, const RankGroup& rank_group);
/// Prints log probabilities and perplexity of texts. Calls run_score_pairs() (score_pairs.h) for pairs.
void run_score(const Start& start, const RankGroup& rank_group);
/// Prints a text's token ids as JSON.
void run_tokenize(const Start& start, const RankGroup& rank_group);
/// Forecasts memory, KV placement and speed from the model's config, without loading weights.
void run_plan(const Start& start, const RankGroup& rank_group);
/// Measures this machine's memory, link and reduction speeds, and prints them, also as flags of plan.
void run_doctor(const Start& start, const RankGroup& rank_group);
/// Writes the model as a folder or as an .h5 file.
void run_convert(const Start& start, const RankGroup& rank_group);
/// convert --tokens: writes texts as an .h5 file of token ids. Called by run_convert().
void run_convert_tokens(const Start& start, const RankGroup& rank_group);
/// Replaces this process by Python (execvp), which runs evaluation suites through `trireme pipe`. Returns only by
/// throwing. Errors: Exit::kUnavailable without Python, or without the script.
[[noreturn]] void run_evaluate(const Options& options);
/// Verifies the digests of the record files, then replaces this process by Python (execvp), which draws them. Returns
/// only by throwing. Errors: as open_record; Exit::kUnavailable without Python, or without the script.
[[noreturn]] void run_report(const Options& options);
/// Returns the text of --list-devices: a line for each device that --device may name, and why no GPU is among them.
std::string list_devices();

}  // namespace trireme
