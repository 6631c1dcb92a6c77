#pragma once
/// Resuming a run from a snapshot (--load-kv).

#include <optional>

#include "decode/generate.h"
#include "decode/session.h"
#include "launch/run/request.h"
#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

struct ResumedRun {
    SnapshotReader snapshot;
    bool exact = false;  // true: exact resume. false: continues the sequence with another chain or rank count

    /// The request of the snapshot's prompt. A given prompt must equal it (Exit::kConfig). All ranks pass, or all
    /// throw.
    Request request(const Start& start, const RankGroup& rank_group, const Engine& engine) const;
    /// Restores engine and chain, and sets the resumed tokens in `request`.
    void load(Engine& engine, Chain& chain, const RankGroup& rank_group, GenerateRequest& request,
              GenerateStats& stats) const;
    /// Restores engine and session: the conversation continues, or begins after the sequence. Returns milliseconds.
    double load(Engine& engine, Session& session, const RankGroup& rank_group) const;
};

/// The states that snapshots contain of a run over a chain, and of a conversation.
std::vector<Remembered> known_of(Chain& chain, Level& model);
std::vector<Remembered> known_of(Session& session, Level& model);

/// Opens the snapshot of --load-kv; nothing without this flag. `what` is the kind of run: "chain" or "session". Logs
/// how the run resumes. Errors: as SnapshotReader.
std::optional<ResumedRun> resume(const Start& start, const RankGroup& rank_group, const KeyValues& settings,
                                 const char* what);

}  // namespace trireme
