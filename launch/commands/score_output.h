#pragma once
/// Outputs of score: stdout, and the file of --output-path. Called on rank 0.

#include <string>

#include "launch/flags/options.h"

namespace trireme {

/// Like probe_outputs(), but also checks that --output-path is writable, unless it is "-".
void probe_score_outputs(const Options& options);

/// Writes `summary` (totals) to stdout, and `details` (a line per text or pair) to --output-path if it is given. If
/// that is "-", writes only `details`, to stdout. Errors: Exit::kIo, kCantCreate.
void write_score(const Options& options, const std::string& summary, const std::string& details);

}  // namespace trireme
