// The flags of snapshots: what a run has read and written so far, for another run.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

}  // namespace

FlagGroup snapshot_flags() {
    return {
        "Snapshots",
        {
            {"save-kv",
             {"--save-kv"},
             kGenerate,
             "FILE",
             "write keys, values and all that the run knows to an HDF5 file: behind the prompt, or a turn, as "
             "--checkpoint-every says, on SIGUSR1 (then the run ends with 75), and on SIGTERM if there is time. Each "
             "one takes the place of the one before",
             [](O& o, const S& s) { o.save_kv = s.word(); },
             [](const O& o) { return o.save_kv; },
             "no snapshots"},
            {"load-kv",
             {"--load-kv"},
             kGenerate,
             "FILE",
             "go on where a snapshot was written, with the very tokens; without a prompt, it is the snapshot's. "
             "Another chain (--spec), or sampling, goes on behind the prompt",
             [](O& o, const S& s) { o.load_kv = s.word(); },
             [](const O& o) { return o.load_kv; },
             "begin with the prompt"},
            {"checkpoint-every",
             {"--checkpoint-every"},
             kGenerate,
             "N",
             "tokens from one snapshot to the next; 0: only the prompt's",
             [](O& o, const S& s) { o.checkpoint_every = s.integer(0, kMostTokens); },
             [](const O& o) { return shown(o.checkpoint_every); }},
            {"grace",
             {"--grace"},
             kGenerate,
             "SECONDS",
             "between SIGTERM and SIGKILL: a snapshot that would take longer is not begun (mpirun: 1, Slurm: 30)",
             [](O& o, const S& s) { o.grace_s = s.real(0, 86400); },
             [](const O& o) { return shown(o.grace_s); }},
        }};
}

}  // namespace trireme
