#pragma once
/// The outputs of score: stdout, and the file of --output-path.

#include <string>

#include "launch/flags/options.h"

namespace trireme {

/// As probe_outputs, and --output-path with them.
void probe_score_outputs(const Options& options);

/// stdout gets `summary`, and --output-path `details`; with "-" stdout gets these alone. Errors: Exit::kIo,
/// kCantCreate.
void write_score(const Options& options, const std::string& summary, const std::string& details);

}  // namespace trireme
