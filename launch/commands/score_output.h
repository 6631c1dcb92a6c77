#pragma once
/// Outputs of score: stdout, and the file of --output-path.

#include <string>

#include "launch/flags/options.h"

namespace trireme {

/// Like probe_outputs(), but also probes --output-path.
void probe_score_outputs(const Options& options);

/// Writes `summary` to stdout and `details` to --output-path; if that is "-", writes only `details`, to stdout. Errors:
/// Exit::kIo, kCantCreate.
void write_score(const Options& options, const std::string& summary, const std::string& details);

}  // namespace trireme
