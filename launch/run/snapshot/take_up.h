#pragma once
/// A run that takes up a snapshot (--load-kv).

#include <optional>

#include "decode/generate.h"
#include "decode/session.h"
#include "launch/run/request.h"
#include "launch/run/snapshot/snapshot_file.h"

namespace trireme {

struct Taken {
    SnapshotReader snapshot;
    bool goes_on = false;  // as the run that was written would have; else behind its text, with another chain or ranks

    /// The snapshot's prompt; one that the run is given must be the same, with Exit::kConfig. All ranks pass, or all
    /// throw.
    Request request(const Start& start, const Crew& crew, const Engine& engine) const;
    /// Fills engine and chain, and tells the request what is there.
    void load(Engine& engine, Chain& chain, const Crew& crew, GenerateRequest& request, GenerateStats& stats) const;
    /// Fills engine and session: the conversation goes on, or begins behind the snapshot's text. Returns milliseconds.
    double load(Engine& engine, Session& session, const Crew& crew) const;
};

/// What snapshots are told of a run over a chain, and of a conversation.
std::vector<Remembered> known_of(Chain& chain, Level& model);
std::vector<Remembered> known_of(Session& session, Level& model);

/// Nothing without --load-kv. `what` the run is: "chain" or "session". Says how it goes on. Errors: as SnapshotReader.
std::optional<Taken> take_up(const Start& start, const Crew& crew, const KeyValues& settings, const char* what);

}  // namespace trireme
