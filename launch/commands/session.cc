#include "decode/session.h"

#include <algorithm>
#include <optional>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/commands/session_turns.h"
#include "launch/flags/text_file.h"
#include "launch/record/run_record.h"
#include "launch/report/kept_dump.h"
#include "launch/report/output.h"
#include "launch/report/printer.h"
#include "launch/report/report.h"
#include "launch/report/trace_file.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/decode_run.h"
#include "launch/run/engine.h"
#include "launch/run/eviction.h"
#include "launch/run/outcome.h"
#include "launch/run/prompt.h"
#include "launch/run/signals.h"
#include "launch/run/snapshot/resume.h"
#include "launch/run/snapshot/snapshots.h"
#include "launch/run/spec_costs.h"
#include "model/files/json.h"
#include "runtime/atomic_file.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr int64_t kMostOfAnswer = 1000;  // tokens, without -n: as the H2O cookbook

/// Reads the ids of all turns.
std::vector<std::vector<int32_t>> read_turns(const Options& o, const Engine& engine, const StillWaiting& waiting) {
    const Checkpoint& files = engine.checkpoint();
    require(files.tokenizer != nullptr, Exit::kConfig, "--session: {} has no tokenizer; want one (--tokenizer)",
            o.model);
    const std::string text = read_text_file_or_stdin(o.prompt, kMostBytesOfSession, waiting);
    std::vector<std::vector<int32_t>> all;
    warn_of_system(o);
    ChatRenderer renderer(o.tokenizer_path());
    ChatTurns chat(renderer, o.system);
    for (const SessionTurn& turn : parse_session(text, o.prompt, o.chat)) {
        const std::string said = o.chat ? chat.text_of(turn.text, turn.where) : turn.text;
        const std::vector<int32_t> ids = encode_prompt(*files.tokenizer, said, adds_special(o, true));
        all.push_back(checked_ids({ids.begin(), ids.end()}, files.config().vocab, engine.longest_context(),
                                  Command::kGenerate, turn.where));
    }
    require(!all.empty(), Exit::kConfig, "{}: holds no turns", o.prompt);
    return all;
}

void share(std::vector<std::vector<int32_t>>& turns, Comm& comm) {
    std::string bytes = nlohmann::json(turns).dump();
    comm.broadcast(bytes);
    turns = nlohmann::json::parse(bytes).get<std::vector<std::vector<int32_t>>>();
}

nlohmann::ordered_json facts_of(const Turn& turn, const Level& model) {
    const auto tokens = static_cast<double>(static_cast<int64_t>(turn.answer.ids.size()) - turn.resumed);
    return {{"prompt_tokens", turn.prompt_tokens},
            {"new_tokens", turn.answer.ids.size()},
            {"stop", name_of(turn.answer.stop)},
            {"reserved", turn.reserved},
            {"resumed_tokens", turn.resumed},
            {"taken_up", turn.resumed},  // the old name, for one release
            {"prefill_ms", turn.prefill_ms},
            {"decode_ms", turn.decode_ms},
            {"decode_tok_s", turn.decode_ms > 0 ? tokens / turn.decode_ms * 1e3 : 0},
            {"length", model.length()},
            {"kv_tokens", model.cache().cached(0)},
            {"kv_bytes", model.cache().bytes_of(model.length())},
            {"text", turn.answer.text}};
}

void check_session(const Options& o) {
    require(o.num_samples == 1, Exit::kUsage, "--session with --num-samples {}: a conversation has one sample; want 1",
            o.num_samples);
    require(o.print != Print::kPrompt, Exit::kUsage,
            "--session with --print prompt: there are several; want text or ids");
    require_for_turns(o, "--session");
}

/// Tokens of the conversation, and of its longest turn, if every answer has `most` tokens.
struct Lengths {
    int64_t all = 0, longest = 0;
};
Lengths lengths_of(const std::vector<std::vector<int32_t>>& turns, int64_t most) {
    Lengths of;
    for (const std::vector<int32_t>& ids : turns) {
        const auto n = static_cast<int64_t>(ids.size()) + 1;  // with the last token of the answer before
        of.all += n + most;
        of.longest = std::max(of.longest, n);
    }
    return of;
}

void log_turn(const Turn& turn, const nlohmann::ordered_json& f, const Level& model, size_t number, size_t of) {
    log::info("turn {} of {}: {} + {} tokens, prefill {:.1f} ms, {:.1f} tok/s, {} of {} tokens kept, {:.1f} MB{}",
              number + 1, of, turn.prompt_tokens, turn.answer.ids.size(), turn.prefill_ms,
              f["decode_tok_s"].get<double>(), f["kv_tokens"].get<int64_t>(), model.length(),
              f["kv_bytes"].get<double>() * 1e-6,
              turn.reserved ? "" : "; too long for room to be made: it pushed others out as it was read");
}

/// Tokens that an earlier run sampled took no time here.
void record_turn(const Turn& turn, int64_t number, RunLog& log) {
    const int64_t drawn = std::ssize(turn.answer.ids) - turn.resumed;
    const int64_t behind_first = log.decode_ns(number, 0);
    if (drawn == 0) return;
    log.done({.text = number,
              .sample = 0,
              .side_by_side = 1,
              .prompt_tokens = turn.prompt_tokens,
              .new_tokens = drawn,
              .prefill_ns = ns_of(turn.prefill_ms),
              .ttft_ns = ns_of(turn.prefill_ms + turn.decode_ms) - std::max<int64_t>(0, behind_first),
              .decode_ns = behind_first});
}

/// Writes the report, the dump (may be null), the trace and the record.
void write_outputs(const Start& start, const RankGroup& rank_group, const Engine& engine, const Chain& chain,
                   const nlohmann::ordered_json& turns, const KvDump* dump, RunLog& log, int status) {
    const Options& o = start.call.options;
    std::vector<ChainLevel> levels;
    add_levels(levels, chain);
    for (const std::string& line : acceptance_lines(levels)) log::info("{}", line);
    rank_group.first_only([&] {
        if (dump != nullptr) write_file_atomically(o.kv_dump, std::as_bytes(std::span(dump->lines())), o.old_outputs());
        nlohmann::ordered_json report = {{"turns", turns}};
        if (!levels.empty()) report["speculation"] = level_facts(levels);
        write_report(o, report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    });
    write_trace(o, rank_group);
    if (!log.on()) return;
    RecordedRun run = {.start = start, .engine = engine, .log = log, .status = exit_status(status)};
    if (!levels.empty()) run.levels.push_back(level_facts(levels));
    run.facts["turns"] = turns;
    write_record(rank_group, run);
}

}  // namespace

void run_session(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.phase([&] { check_session(o); });
    if (!o.save_kv.empty()) remember_snapshot_signal();
    SpecCosts costs;
    rank_group.first_only([&] {
        probe_outputs(o);
        costs = given_costs(o);
    });
    Engine engine(start, rank_group);
    share(costs, rank_group.comm());
    const std::optional<ResumedRun> earlier = resume(start, rank_group, engine.settings(), "session");
    if (earlier && earlier->exact && !earlier->snapshot.costs().empty()) costs = earlier->snapshot.costs();
    std::vector<std::vector<int32_t>> turns;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) { turns = read_turns(o, engine, waiting); });
    share(turns, rank_group.comm());

    const int64_t most = o.n_predict < 0 ? kMostOfAnswer : o.n_predict;
    auto [all, longest] = lengths_of(turns, most);
    // A resumed conversation has read some of the turns; it may be longer than they are.
    if (earlier) all += static_cast<int64_t>(earlier->snapshot.text().ids().size());
    engine.load(start, rank_group, std::min(all, engine.longest_context()), longest);
    warn_of_unused_eviction(o, engine.bounding(), all);
    StopRules rules = {.stop = o.stop};
    if (!o.ignore_eos) rules.eos = engine.checkpoint().eos;
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    remember_signals();

    warn_of_unused({o});
    std::optional<Chain> chain;
    rank_group.phase([&] { chain.emplace(o, engine.model(), engine.proposing(), engine.device(), costs); });
    Session session(chain->decoder(), engine.checkpoint().tokenizer.get());
    Printer printer(o, "turn", static_cast<int64_t>(turns.size()), /*headed=*/true);
    nlohmann::ordered_json facts = nlohmann::ordered_json::array();
    std::optional<Snapshots> snapshots;
    if (!o.save_kv.empty()) {
        snapshots.emplace(o, rank_group, engine,
                          Snapshots::Of{.known = known_of(session, *chain, engine.model()),
                                        .text = [&] { return text_of(session); },
                                        .costs = [&] { return chain->costs(); }});
    }
    std::optional<KeptDump> dump;
    rank_group.phase([&] {
        if (o.kv_dump.empty()) return;
        require(engine.eviction().evicts(), Exit::kConfig, "--kv-dump: of a --kv-policy other than full");
        dump.emplace(engine, rank_group, /*prompt=*/0);
    });
    int64_t turn_read = 0;
    session.on_read([&] {
        if (chain->wants_costs()) chain->warm_up(rank_group, session.text().back());
        if (snapshots) snapshots->write();
        if (dump) dump->turn(turn_read);
    });
    if (earlier) log::info("resumed in {:.1f} ms", earlier->load(engine, session, *chain, rank_group));
    RunLog record(o, rank_group.comm().rank(), rank_group.comm().size());
    record.mode(mode_name(o), 1, engine);
    bool settled = !session.text().empty();  // no turn is partly read, so a snapshot can be written
    DecodeRun run(rank_group, [&] { return chain->digest(); });
    if (dump) {
        run.add({.round = [&](std::span<const int32_t> round) {
            if (!round.empty()) dump->take();
        }});
    }
    run.add({.round = [&](std::span<const int32_t> round) { record.round(round); }});
    run.add({.status = [&] { return printer.reader_gone() ? kReaderGone : 0; }});
    if (snapshots) {
        run.add(
            {.status = [&] { return settled && snapshot_signal_came() ? kSnapshotAsked : 0; },
             .agreed = [&](size_t tokens, int agreed) { return settled ? snapshots->round(tokens, agreed) : agreed; }});
    }
    for (size_t t = 0; t < turns.size() && !run.round({}); ++t) {
        record.text(static_cast<int64_t>(t), 0);
        turn_read = static_cast<int64_t>(t);
        if (dump) dump->resumed(turn_read, session.answer_begin());
        const std::optional<Turn> said = session.answer(
            turns[t], most, rules,
            [&](int64_t number, int32_t id, std::string_view text) {
                if (rank_group.first()) printer.take(number, id, text);
            },
            [&](std::span<const int32_t> round) {
                settled = !round.empty();
                return run.round(round);
            });
        if (!said) break;
        settled = true;
        const Turn& turn = *said;
        record.checks(chain->take_kept_rounds());
        facts.push_back(facts_of(turn, engine.model()));
        record_turn(turn, turn_read, record);
        log_turn(turn, facts.back(), engine.model(), t, turns.size());
    }
    const int status = run.status();
    if (status == kSaved) log::info("stopped; resume with --load-kv {}", o.save_kv);
    write_outputs(start, rank_group, engine, *chain, facts, dump ? &*dump : nullptr, record, status);
    if (snapshots && status == 0) snapshots->write();
    if (status != 0) throw Stopped{exit_status(status)};
}

}  // namespace trireme
