#pragma once
/// Settings of a run as text: those that ranks and snapshots compare, and those that determine the tokens, which batch
/// writes into its result lines.

#include <map>
#include <string>

#include "dist/agreement.h"
#include "launch/flags/options.h"
#include "launch/run/checkpoint.h"
#include "launch/run/spec_levels.h"

namespace trireme {

/// The program's commit, the command's flags, and the content of the model's files: shapes, a sample of the weights,
/// the vocabulary. Includes the draft model's files if `proposing` has one (null: no proposers). Flags that concern one
/// rank alone are left out: rank 0 reads the prompt and writes files.
KeyValues settings(Command command, const Options& options, const Checkpoint& checkpoint, const SpecLevels* proposing);

/// Returns a setting of a snapshot or result file. One that is missing, because an older version wrote the file, has
/// its flag's default; without such a flag it is "none".
std::string value_of(const std::map<std::string, std::string>& settings, const std::string& name);

/// The entries of settings() that determine which tokens are generated: flags that differ from their defaults, and
/// "model files" and "draft files", each one digest of the entries about these files. KV placement, devices, ranks,
/// threads, the program's version and parallel sequences are left out, since they change rounding at most. With
/// `seed_drawn` the seed is not the user's choice, and counts as -1.
KeyValues deciding_settings(Command command, const KeyValues& settings, bool seed_drawn);

}  // namespace trireme
