#pragma once
/// A bench's results as a table: what llama-bench's has under llama-bench's names, the rest under those of reports.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launch/commands/bench_runs.h"

namespace trireme {

/// What all rows have in common.
struct BenchFacts {
    int64_t n_prompt = 0, n_gen = 0;
    int64_t texts = 0, texts_left_out = 0, repetitions = 0;
    bool greedy = false;
    nlohmann::ordered_json run;  // model, machine, settings
};

/// A row for each mode that has runs. What was not measured, or means nothing for the mode, is null.
std::vector<nlohmann::ordered_json> bench_rows(const BenchFacts& facts, const std::vector<BenchResult>& results);

/// The rows as text. md has the figures that people compare; csv all but lists; json and jsonl everything.
std::string table_text(Table table, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace trireme
