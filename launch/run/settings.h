#pragma once
/// The settings that must be the same on every rank, as text that ranks compare.

#include "dist/agreement.h"
#include "launch/flags/options.h"
#include "launch/run/checkpoint.h"
#include "launch/run/spec_levels.h"

namespace trireme {

/// The program's commit, the command's flags, and what the files hold: shapes, a sample of the weights, the
/// vocabulary; the same of the draft model's files, where `proposing` has one (null: nobody proposes). Flags that
/// concern one rank alone are left out: rank 0 reads the prompt and writes files.
KeyValues settings(Command command, const Options& options, const Checkpoint& checkpoint, const SpecLevels* proposing);

}  // namespace trireme
