#include "launch/run/snapshot/resume.h"

#include <algorithm>

#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {

namespace {

Remembered remembered(Level& model) {
    return {"level", [&model](Archive& ar) { model.state(ar, /*tiles=*/false); }};
}
Remembered remembered(Chain& chain, const char* name = "chain") {
    return {name, [&chain](Archive& ar) { chain.state(ar); }};
}
Remembered remembered(Session& session) {
    return {"session", [&session](Archive& ar) { session.state(ar); }};
}

}  // namespace

std::vector<Remembered> known_of(Chain& chain, Level& model) {
    std::vector<Remembered> all = {remembered(chain)};
    // The level's state is saved for other chains. An evicting cache is of no use to them, and the chain's state has
    // it.
    if (model.full() != nullptr) all.push_back(remembered(model));
    return all;
}

// The state of plain decoding follows from the session's and the level's.
std::vector<Remembered> known_of(Session& session, Chain& chain, Level& model) {
    std::vector<Remembered> all = {remembered(session), remembered(model)};
    if (chain.plain() == nullptr) all.push_back(remembered(chain, "session chain"));
    return all;
}

SnapshotText text_of(const Session& session) {
    const auto answer = session.text().begin() + session.answer_begin();
    return {.prompt = {session.text().begin(), answer}, .generated = {answer, session.text().end()}};
}

std::optional<ResumedRun> resume(const Start& start, const RankGroup& rank_group, const KeyValues& settings,
                                 const char* what) {
    const Options& o = start.call.options;
    if (o.load_kv.empty()) return std::nullopt;
    ResumedRun earlier{.snapshot = SnapshotReader(o.load_kv, rank_group)};
    const SnapshotReader& s = earlier.snapshot;
    s.require_same_model(settings);
    const std::string other = s.other_chain(settings);
    const bool same = s.remembers(what);
    earlier.exact = same && other.empty() && s.ranks() == rank_group.comm().size();
    log::info("{}: {} tokens of a prompt, {} generated; {}", o.load_kv, s.text().prompt.size(),
              s.text().generated.size(),
              earlier.exact   ? "the run continues with exactly its tokens"
              : !same         ? fmt::format("another run, which has no {}: tokens of its distribution", what)
              : other.empty() ? fmt::format("written by {} ranks: tokens of the same distribution", s.ranks())
                              : fmt::format("another run: {}: tokens of its distribution", other));
    return earlier;
}

Request ResumedRun::request(const Start& start, const RankGroup& rank_group, const Engine& engine) const {
    const Options& o = start.call.options;
    const std::vector<int32_t>& there = snapshot.text().prompt;
    if (o.prompt_from != PromptFrom::kNowhere) {
        const Request given = read_request(start, rank_group, engine);
        const auto [mine, theirs] = std::ranges::mismatch(given.ids, there);
        require(
            given.ids == there, Exit::kConfig,
            "--load-kv {}: its prompt has {} tokens, this one {}, and they differ from token {} on; leave the prompt "
            "out, or read it again",
            o.load_kv, there.size(), given.ids.size(), mine - given.ids.begin());
        return given;
    }
    Request request;
    request.ids = there;
    request.positions = positions_of(request.tokens(), o.n_predict, engine.longest_context());
    const auto text = request.tokens() + static_cast<int64_t>(snapshot.text().generated.size());
    require(text <= engine.longest_context(), Exit::kConfig, "--load-kv {}: {} tokens, the context has {}; raise it",
            o.load_kv, text, engine.longest_context());
    request.positions = std::max(request.positions, text);
    return request;
}

void ResumedRun::load(Engine& engine, Chain& chain, const RankGroup& rank_group, GenerateRequest& request,
                      GenerateStats& stats) const {
    const uint64_t begin = trace::now();
    stats = {};
    stats.prompt_tokens = static_cast<int64_t>(request.prompt.size());
    request.resumed = snapshot.text().generated;
    request.exact = exact;
    if (exact) {
        snapshot.load(engine, {remembered(chain)}, rank_group);
    } else {
        snapshot.load_text(engine, chain, rank_group);
    }
    stats.resume_ms = static_cast<double>(trace::now() - begin) * 1e-6;
}

double ResumedRun::load(Engine& engine, Session& session, Chain& chain, const RankGroup& rank_group) const {
    const uint64_t begin = trace::now();
    if (exact) {
        snapshot.load(engine, known_of(session, chain, engine.model()), rank_group);
        const Session::Restored what =
            chain.plain() == nullptr ? Session::Restored::kDecoder : Session::Restored::kLevel;
        rank_group.phase([&] { session.resume(what, chain.plain()); });
    } else if (snapshot.remembers("session")) {
        snapshot.load_tiles(engine, {remembered(session)}, rank_group);
        session.resume(Session::Restored::kCache, chain.plain());
    } else {
        snapshot.load_tiles(engine, {}, rank_group);
        session.adopt(snapshot.text().ids());
    }
    return static_cast<double>(trace::now() - begin) * 1e-6;
}

}  // namespace trireme
