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

/// Of settings(): what decides which tokens come. Flags that differ from their defaults; "model files" and "draft
/// files", each one digest of what is known of them. Where keys and values are kept, devices, ranks, threads, the
/// program's version and texts decoded in parallel are left out: they change rounding at most. `seed_drawn`: the seed
/// is not the user's choice, and counts as -1.
KeyValues deciding_settings(Command command, const KeyValues& settings, bool seed_drawn);

}  // namespace trireme
