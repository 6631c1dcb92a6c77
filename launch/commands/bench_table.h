#pragma once
/// Table of a bench's results. Columns that llama-bench has use its names, the others those of reports.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launch/commands/bench_runs.h"

namespace trireme {

/// The fields that all rows share.
struct BenchFacts {
    int64_t n_prompt = 0, n_gen = 0;
    int64_t texts = 0, texts_left_out = 0, repetitions = 0;
    bool greedy = false;
    nlohmann::ordered_json run;  // model, machine, settings
};

/// Returns a row for each mode that has runs. Fields that were not measured or do not apply to the mode are null.
std::vector<nlohmann::ordered_json> bench_rows(const BenchFacts& facts, const std::vector<BenchResult>& results);

/// Formats the rows. md has the columns that users compare; csv all but lists; json and jsonl everything.
std::string table_text(Table table, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace trireme
