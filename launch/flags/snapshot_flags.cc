// The flags of snapshots: saving and resuming a run's state.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

}  // namespace

FlagGroup snapshot_flags() {
    return {"Snapshots",
            {
                {"save-kv",
                 {"--save-kv"},
                 kGenerate,
                 "FILE",
                 "write a snapshot (HDF5): after the prompt or a turn, every --checkpoint-every tokens, on "
                 "SIGUSR1 (then exit with 75), and on SIGTERM if time allows. Each replaces the one before",
                 [](O& o, const S& s) { o.save_kv = s.word(); },
                 [](const O& o) { return o.save_kv; },
                 "no snapshots"},
                {"load-kv",
                 {"--load-kv"},
                 kGenerate,
                 "FILE",
                 "resume from a snapshot, with exactly the same tokens; the prompt may be omitted. With another "
                 "chain or sampling: continue after the prompt",
                 [](O& o, const S& s) { o.load_kv = s.word(); },
                 [](const O& o) { return o.load_kv; },
                 "begin with the prompt"},
                {"checkpoint-every",
                 {"--checkpoint-every"},
                 kGenerate,
                 "N",
                 "tokens between two snapshots; 0: after the prompt only",
                 [](O& o, const S& s) { o.checkpoint_every = s.integer(0, kMostTokens); },
                 [](const O& o) { return shown(o.checkpoint_every); }},
                {"grace",
                 {"--grace"},
                 kGenerate,
                 "SECONDS",
                 "seconds between SIGTERM and SIGKILL; a snapshot that takes longer is not started (mpirun: 1, "
                 "Slurm: 30)",
                 [](O& o, const S& s) { o.grace_s = s.real(0, 86400); },
                 [](const O& o) { return shown(o.grace_s); }},
            }};
}

}  // namespace trireme
