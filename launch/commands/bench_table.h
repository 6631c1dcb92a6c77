#pragma once
/// Table of bench's results. Columns that llama-bench also has use its names, the others those of --report-json.

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "launch/commands/bench_runs.h"

namespace trireme {

/// The fields that all rows share.
struct BenchFacts {
    int64_t n_prompt = 0, n_gen = 0;                         // tokens of each text, and tokens generated after it
    int64_t texts = 0, texts_left_out = 0, repetitions = 0;  // texts_left_out: shorter than --prefill
    bool greedy = false;                                     // temperature 0: tokens are compared
    std::string dataset = {};                                // if the table has several
    std::optional<double> at_temp = {};                      // if the table has several temperatures
    nlohmann::ordered_json run;                              // model, machine, settings
};

/// Returns a row for each mode that has runs. Fields that were not measured or do not apply to the mode are null.
std::vector<nlohmann::ordered_json> bench_rows(const BenchFacts& facts, const std::vector<BenchResult>& results);

/// Formats the rows. md has the columns that users compare, without those that are null in all rows; wide is md with
/// these. csv has all fields but lists; json and jsonl have everything.
std::string table_text(Table table, const std::vector<nlohmann::ordered_json>& rows);

}  // namespace trireme
