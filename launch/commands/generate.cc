#include "decode/generate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <unistd.h>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/record/run_record.h"
#include "launch/report/kv_dump.h"
#include "launch/report/output.h"
#include "launch/report/printer.h"
#include "launch/report/report.h"
#include "launch/report/trace_file.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/decode_run.h"
#include "launch/run/empty_answer.h"
#include "launch/run/eviction.h"
#include "launch/run/outcome.h"
#include "launch/run/progress.h"
#include "launch/run/request.h"
#include "launch/run/side_by_side.h"
#include "launch/run/signals.h"
#include "launch/run/snapshot/resume.h"
#include "launch/run/snapshot/snapshots.h"
#include "launch/run/spec_costs.h"
#include "runtime/atomic_file.h"
#include "runtime/log.h"

namespace trireme {
namespace {

GenerateRequest generate_request(const Options& o, const Engine& engine, const Request& asked) {
    GenerateRequest request = {
        .prompt = asked.ids, .max_new = o.n_predict, .num_samples = o.num_samples, .stops = {.stop = o.stop}};
    if (!o.ignore_eos) request.stops.eos = engine.checkpoint().eos;
    return request;
}

/// Writes the record: a row for each sample, or one for all parallel samples, and on rank 0 the report (`json`).
void record_run(const Start& start, const RankGroup& rank_group, const RunReport& report, const std::string& json,
                RunLog& log, Chains& chain, const std::optional<ResumedRun>& earlier, int status) {
    if (!log.on()) return;
    const GenerateStats& t = report.stats;
    const int64_t resumed = earlier ? std::ssize(earlier->snapshot.text().generated) : 0;
    if (log.side_by_side() > 1) {
        log.done({.text = 0,
                  .sample = -1,
                  .side_by_side = std::ssize(report.samples),
                  .prompt_tokens = t.prompt_tokens,
                  .new_tokens = t.new_tokens,
                  .prefill_ns = ns_of(t.prefill_ms),
                  .ttft_ns = ns_of(t.ttft_ms),
                  .decode_ns = ns_of(t.decode_ms)});
    }
    for (size_t i = 0; i < report.samples.size() && log.side_by_side() == 1; ++i) {
        const auto sample = static_cast<int64_t>(i);
        log.done({.text = 0,
                  .sample = sample,
                  .side_by_side = 1,
                  .prompt_tokens = t.prompt_tokens,
                  .new_tokens = std::ssize(report.samples[i].ids) - (i == 0 ? resumed : 0),
                  .prefill_ns = earlier ? -1 : ns_of(t.prefill_ms),
                  .ttft_ns = i == 0 ? ns_of(t.ttft_ms) : -1,
                  .decode_ns = log.decode_ns(0, sample)});
    }
    log.checks(chain.take_kept_rounds());
    RecordedRun run = {.start = start, .engine = report.engine, .log = log, .status = status};
    run.levels.push_back(level_facts(report.levels));
    if (rank_group.first()) run.facts["report"] = nlohmann::ordered_json::parse(json);
    if (earlier) {
        run.facts["resumed"] = {{"file", start.call.options.load_kv},
                                {"prompt_tokens", earlier->snapshot.text().prompt.size()},
                                {"generated_tokens", earlier->snapshot.text().generated.size()},
                                {"exact", earlier->exact}};
        run.facts["taken_up"] = run.facts["resumed"];  // the old names, for one release
        run.facts["taken_up"]["goes_on"] = earlier->exact;
    }
    write_record(rank_group, run);
}

void check_generate(const Options& o) {
    require_side_by_side(o);
    require(o.save_kv.empty() || o.num_samples == 1, Exit::kUsage, "--save-kv: of one continuation, not of {}",
            o.num_samples);
    require(!o.save_kv.empty() || o.checkpoint_every == 0, Exit::kUsage,
            "--checkpoint-every {}: no --save-kv says where snapshots go", o.checkpoint_every);
}

/// Logs the report, and writes it, the dump (may be null) and the trace. Returns the report on rank 0.
std::string write_outputs(const Options& o, const RankGroup& rank_group, const RunReport& report, const KvDump* dump) {
    for (const std::string& line : report_lines(report)) log::info("{}", line);
    std::string json;
    rank_group.first_only([&] {
        if (dump != nullptr) write_file_atomically(o.kv_dump, std::as_bytes(std::span(dump->lines())), o.old_outputs());
        json = report_json(report);
        write_report(o, json);
    });
    write_trace(o, rank_group);
    return json;
}

/// Logs why the run stopped before its end, and warns of empty answers.
void log_end(const Options& o, const RankGroup& rank_group, const std::vector<Continuation>& samples,
             const GenerateStats& stats, int status) {
    for (const Continuation& c : samples) {
        if (rank_group.first()) warn_of_empty_answer(o, c);
    }
    if (status > 128) log::info("stopped by signal {} after {} tokens", status - 128, stats.new_tokens);
    if (status == kSaved) log::info("stopped; resume with --load-kv {}", o.save_kv);
}

/// Writes the prompt to stdout; a prompt of ids as their text.
void print_prompt(const RankGroup& rank_group, const Engine& engine, const Request& asked) {
    rank_group.first_only([&] {
        const std::string& text = asked.text;
        TextOut(STDOUT_FILENO).write(text.empty() ? engine.checkpoint().tokenizer->decode(asked.ids) : text);
    });
}

}  // namespace

void run_generate(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.phase([&] { check_generate(o); });
    if (o.prompt_from == PromptFrom::kSession) return run_session(start, rank_group);
    SpecCosts costs;
    if (!o.save_kv.empty()) remember_snapshot_signal();
    rank_group.first_only([&] {
        probe_outputs(o);
        costs = given_costs(o);
    });
    Engine engine(start, rank_group);
    share(costs, rank_group.comm());
    const std::optional<ResumedRun> earlier = resume(start, rank_group, engine.settings(), "chain");
    if (earlier && earlier->exact && !earlier->snapshot.costs().empty()) costs = earlier->snapshot.costs();
    const Request asked =
        earlier ? earlier->request(start, rank_group, engine) : read_request(start, rank_group, engine);
    if (o.print == Print::kPrompt) print_prompt(rank_group, engine, asked);
    if (o.n_predict == 0) return;
    const int64_t parallel = texts_side_by_side(
        start, rank_group, engine,
        {.context = asked.positions, .prompt_tokens = asked.tokens(), .texts = o.num_samples, .of_one_prompt = true});
    engine.load(start, rank_group, asked.positions, asked.tokens(), {.texts = parallel, .of_one_prompt = true});
    warn_of_unused_eviction(o, engine.bounding(), asked.positions);
    GenerateRequest request = generate_request(o, engine, asked);
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    Printer printer(o, "sample", o.num_samples, /*headed=*/o.num_samples > 1);
    const ProgressSink sink = stderr_progress(rank_group.first() && !o.no_progress);

    warn_of_unused({o});
    std::optional<Chains> made;
    rank_group.phase([&] { made.emplace(o, engine.model(), engine.proposing(), engine.device(), costs, parallel); });
    Chains& chain = *made;
    WarmUp warm_up;
    std::unique_ptr<KvDump> dump;
    rank_group.phase([&] { dump = make_kv_dump(o, engine, rank_group, asked.tokens()); });
    if (chain.wants_costs()) {
        warm_up = [&] {
            if (dump) dump->take();
            chain.warm_up(rank_group, request.prompt.back());
            if (dump) dump->skip();
        };
    }
    SnapshotText said;
    std::optional<Snapshots> snapshots;
    if (!o.save_kv.empty()) {
        said = {asked.ids, earlier ? earlier->snapshot.text().generated : std::vector<int32_t>()};
        snapshots.emplace(o, rank_group, engine,
                          Snapshots::Of{.known = known_of(chain.first(), engine.model()),
                                        .text = [&] { return said; },
                                        .costs = [&] { return chain.costs(); }});
    }
    request.begun = [&] {
        const bool dumped = earlier && earlier->exact && !request.resumed.empty();  // by the run that is resumed
        if (dump) dumped ? dump->skip() : dump->take();
        if (snapshots && (!earlier || !earlier->exact)) snapshots->write();
    };
    GenerateStats stats;
    RunLog record(o, rank_group.comm().rank(), rank_group.comm().size());
    record.mode(mode_name(o), parallel, engine);
    int64_t recorded = parallel > 1 ? -1 : 0;  // the sample of the next rounds
    record.text(0, recorded, earlier ? std::ssize(earlier->snapshot.text().generated) : 0);
    DecodeRun run(rank_group, [&] { return chain.digest(); });
    if (dump) run.add({.round = [&](std::span<const int32_t>) { dump->round(); }});
    run.add({.round = [&](std::span<const int32_t> round) { record.round(round); }});
    run.add({.status = [&] { return printer.reader_gone() ? kReaderGone : 0; }});
    if (snapshots) {
        run.add({.round =
                     [&](std::span<const int32_t> round) {
                         said.generated.insert(said.generated.end(), round.begin(), round.end());
                     },
                 .status = [] { return snapshot_signal_came() ? kSnapshotAsked : 0; },
                 .agreed = [&](size_t tokens, int agreed) { return snapshots->round(tokens, agreed); }});
    }
    const Interrupt interrupt = [&](std::span<const int32_t> round) { return run.round(round); };
    std::vector<Continuation> samples;
    {
        ProgressMeter prefill("prefill", "tokens", sink);
        const Tokenizer* tokenizer = engine.checkpoint().tokenizer.get();
        const OnToken show = [&](int64_t sample, int32_t id, std::string_view text) {
            if (rank_group.first()) printer.take(sample, id, text);
            if (parallel == 1 && sample != recorded) record.text(0, recorded = sample);
        };
        const Progress progress = [&](int64_t done, int64_t total) {
            prefill(done, total);
            if (done == total) remember_signals();  // from now on there is a result to keep
        };
        if (earlier) {
            earlier->load(engine, chain.first(), rank_group, request, stats);
            remember_signals();
            if (warm_up) trireme::warm_up(warm_up, stats);
            samples = continue_prompt(chain.slots(), tokenizer, request, stats, show, interrupt);
        } else {
            samples = generate(chain.slots(), tokenizer, request, stats, show, progress, interrupt, warm_up);
        }
    }
    if (rank_group.first()) printer.end_line();
    const int status = run.status();
    log_end(o, rank_group, samples, stats, status);
    const RunReport report = {.call = start.call,
                              .engine = engine,
                              .stats = stats,
                              .samples = samples,
                              .levels = chain.levels(),
                              .costs = chain.costs(),
                              .ranks = gather_facts(rank_group.comm(), own_facts(engine, stats)),
                              .command_line = start.command_line};
    const std::string json = write_outputs(o, rank_group, report, dump.get());
    record_run(start, rank_group, report, json, record, chain, earlier, exit_status(status));
    if (status != 0) throw Stopped{exit_status(status)};
    if (snapshots) snapshots->require_last();
}

}  // namespace trireme
