#pragma once
/// ResumedRun: a run of generate that resumes a snapshot (--load-kv).

#include <optional>

#include "decode/generate.h"
#include "decode/session.h"
#include "launch/run/request.h"
#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

struct ResumedRun {
    SnapshotReader snapshot;
    bool exact = false;  // true: gives the tokens of the saved run. false: continues with another chain or rank count

    /// The request of the snapshot's prompt, with positions for its generated tokens. A prompt given by flags must
    /// equal the snapshot's (Exit::kConfig). All ranks pass, or all throw.
    Request request(const Start& start, const RankGroup& rank_group, const Engine& engine) const;
    /// Restores engine and chain, sets the resumed tokens in `request`, and resets `stats`. All ranks pass, or all
    /// throw: errors as SnapshotReader's load functions.
    void load(Engine& engine, Chain& chain, const RankGroup& rank_group, GenerateRequest& request,
              GenerateStats& stats) const;
    /// Restores engine and session: a conversation continues; after another run, one begins after its sequence. Returns
    /// the time in milliseconds.
    double load(Engine& engine, Session& session, Chain& chain, const RankGroup& rank_group) const;
};

/// The states that snapshots of a run over a chain contain, and those of a conversation. `model`: the full model's
/// level.
std::vector<Remembered> known_of(Chain& chain, Level& model);
std::vector<Remembered> known_of(Session& session, Chain& chain, Level& model);

/// The conversation before the last answer, and the last answer.
SnapshotText text_of(const Session& session);

/// Opens the snapshot of --load-kv; returns nothing without this flag. `settings`: Engine::settings(). `what`: the kind
/// of this run, "chain" or "session". Logs how the run resumes. All ranks pass, or all throw: errors as SnapshotReader,
/// also for another model.
std::optional<ResumedRun> resume(const Start& start, const RankGroup& rank_group, const KeyValues& settings,
                                 const char* what);

}  // namespace trireme
