#include <algorithm>
#include <optional>
#include <unistd.h>

#include "generated/commit.h"
#include "launch/commands/bench_runs.h"
#include "launch/commands/bench_table.h"
#include "launch/commands/bench_texts.h"
#include "launch/flags/flags.h"
#include "launch/flags/modes.h"
#include "launch/record/run_record.h"
#include "launch/report/output.h"
#include "launch/report/report.h"
#include "launch/report/trace_file.h"
#include "launch/run/chain.h"
#include "launch/run/eviction.h"
#include "launch/run/kv_wire.h"
#include "launch/run/outcome.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Checks flags before any file is opened.
void check_flags(const Options& o, int64_t n) {
    require(n >= 2, Exit::kConfig, "-n {}: a bench times the tokens after the first; want 2 or more", n);
    if (!o.require_exact) return;
    require(o.sampling.greedy(), Exit::kUsage,
            "--require-exact: tokens that are drawn at --temp {} need not be the same; want --temp 0",
            o.sampling.temperature);
    bool plain = false;
    for (const Options& chain : chains_of(Command::kBench, o))
        plain = plain || (chain.spec.parts.empty() && chain.eviction.policy == KvPolicy::kFull);

    require(plain, Exit::kUsage, "--require-exact: compares with the mode none, which --modes does not have");
}

int64_t parameters(const WeightSource& source) {
    int64_t n = 0;
    for (const TensorInfo& t : source.tensors()) n += t.shape.elements();
    return n;
}

std::string length_text(int64_t tokens) {
    return tokens == GammaController::kAuto ? "auto" : std::to_string(tokens);
}

/// The fields shared by all rows. Makes control calls.
BenchFacts facts_of(const Start& start, const RankGroup& rank_group, const Engine& engine, const BenchTexts& texts,
                    int64_t n) {
    const Options& o = start.call.options;
    const LlamaConfig& config = engine.checkpoint().config();
    uint64_t model_size = 0;
    for (const size_t bytes : rank_group.comm().gather_values(engine.weights().bytes())) model_size += bytes;
    const bool emulated = o.link.gbps > 0;
    return {.n_prompt = texts.tokens(),
            .n_gen = n,
            .texts = static_cast<int64_t>(texts.ids.size()),
            .texts_left_out = texts.left_out,
            .repetitions = o.repetitions,
            .greedy = o.sampling.greedy(),
            .run = {{"build_commit", TRIREME_COMMIT},
                    {"test_time", utc_now()},
                    {"backends", engine.device().backend()},
                    {"device", engine.device().name()},
                    {"n_ranks", rank_group.comm().size()},
                    {"n_threads", engine.threads()},
                    {"model_filename", o.model},
                    {"model_type", fmt::format("{} {}", config.name, engine.checkpoint().weight_type.name)},
                    {"model_size", model_size},
                    {"model_n_params", parameters(*engine.checkpoint().source)},
                    {"type_k", name_of(o.cache_type_k)},
                    {"type_v", name_of(o.cache_type_v)},
                    {"kv_lossy", kv_lossy(o)},
                    {"link_gbps", emulated ? nlohmann::ordered_json(o.link.gbps) : nlohmann::ordered_json()},
                    {"seed", o.seed.value()},
                    {"temp", o.sampling.temperature},
                    {"gamma", length_text(o.gamma)},
                    {"gamma_inner", length_text(o.gamma_inner)},
                    {"tree_size", o.tree_size},
                    {"siblings", o.siblings == GammaController::kAutoSiblings ? "auto" : std::to_string(o.siblings)},
                    {"draft_window", o.draft_window},
                    {"retrieval_budget", o.retrieval_budget == 0 ? kDefaultBudget : o.retrieval_budget},
                    {"retrieval_chunk", o.retrieval_chunk},
                    {"reselect", o.reselect == RetrievalShape::kNever ? "never" : std::to_string(o.reselect)},
                    {"reselect_queries", o.reselect_queries}}};
}

/// The record of the bench. The figures of levels are taken from the rows.
RecordedRun recorded(const Start& start, const Engine& engine, RunLog& log,
                     const std::vector<nlohmann::ordered_json>& rows) {
    RecordedRun run = {.start = start, .engine = engine, .log = log};
    for (const auto& mode : log.modes()) {
        const auto row = std::ranges::find_if(rows, [&](const nlohmann::ordered_json& r) {
            return r.at("mode") == mode.at("name") && r.at("n_parallel") == mode.at("side_by_side");
        });
        run.levels.push_back(row == rows.end() ? nlohmann::ordered_json::array() : row->at("levels"));
    }
    run.facts["rows"] = rows;
    return run;
}

/// How the benches of a run ended.
struct Ended {
    int status = 0;                      // 128 + a signal
    std::optional<AgreedError> refused;  // a residency that could not be loaded
    std::string wrong, baseline;         // modes whose tokens differ from the baseline's
    std::vector<std::string> warnings;   // in order

    bool early() const { return status != 0 || refused; }
    void take(const BenchResults& results, bool greedy);
};

void Ended::take(const BenchResults& results, bool greedy) {
    status = results.status;
    refused = results.refused;
    if (status != 0) log::info("stopped by signal {}", status - 128);
    const BenchResult* plain = baseline_of(results.modes);
    if (plain == nullptr) warnings.emplace_back("no mode none was measured: there is nothing to compare with");
    for (const BenchResult& r : results.modes) {
        const std::string other = difference(r, plain, greedy).value_or("");
        if (other.empty()) continue;
        warnings.push_back(fmt::format("{}: not exact: {}", r.mode, other));
        wrong += (wrong.empty() ? "" : ", ") + r.mode;
        if (plain != nullptr) baseline = plain->mode;
    }
}

}  // namespace

void run_bench(const Start& given, const RankGroup& rank_group) {
    Start start = given;
    Options& o = start.call.options;
    if (o.n_predict < 0) o.n_predict = Options::kBenchTokens;
    const int64_t n = o.n_predict;
    const std::vector<double> temperatures =
        o.temperatures.empty() ? std::vector{o.sampling.temperature} : o.temperatures;
    const std::vector<std::string> datasets = o.datasets.empty() ? std::vector{o.dataset} : o.datasets;
    rank_group.phase([&] {
        require(temperatures.size() * datasets.size() == 1 || o.record.empty(), Exit::kUsage,
                "--record: a record has one bench; give one --dataset and one --temp");
        for (const double t : temperatures) {
            o.sampling.temperature = t;
            check_flags(o, n);
        }
    });
    rank_group.first_only([&] { probe_outputs(o); });
    Engine engine(start, rank_group);
    warn_of_unused(chains_of(Command::kBench, o));
    if (std::ranges::none_of(o.modes, [](const Mode& m) { return m.policy != KvPolicy::kFull; })) {
        warn_of_unused_eviction(o, engine.bounding(), INT64_MAX);
    }
    std::vector<BenchTexts> all_texts;  // before anything is measured, because a folder may be missing
    for (const std::string& dataset : datasets) {
        o.dataset = dataset;
        all_texts.push_back(read_bench_texts(start, rank_group, engine, n));
    }
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    RunLog log(o, rank_group.comm().rank(), rank_group.comm().size());
    std::vector<nlohmann::ordered_json> rows;
    Ended ended;
    for (size_t d = 0; d < datasets.size() && !ended.early(); ++d) {
        const BenchTexts& texts = all_texts[d];
        for (size_t t = 0; t < temperatures.size() && !ended.early(); ++t) {
            o.sampling.temperature = temperatures[t];
            const std::string dataset = datasets.size() > 1 ? datasets[d] : "";
            if (temperatures.size() > 1 || !dataset.empty()) {
                log::info("{}{}temperature {}", dataset, dataset.empty() ? "" : ", ", temperatures[t]);
            }
            const BenchResults results = run_modes(start, rank_group, engine, texts, n, log);
            BenchFacts facts = facts_of(start, rank_group, engine, texts, n);
            facts.dataset = dataset;
            if (temperatures.size() > 1) facts.at_temp = temperatures[t];
            for (nlohmann::ordered_json& row : bench_rows(facts, results.modes)) rows.push_back(std::move(row));
            ended.take(results, o.sampling.greedy());
        }
    }
    rank_group.first_only([&] { TextOut(STDOUT_FILENO).write(table_text(o.table, rows)); });
    write_trace(o, rank_group);
    for (const std::string& line : ended.warnings) log::warn("{}", line);
    if (log.on()) {
        RecordedRun run = recorded(start, engine, log, rows);
        run.status = ended.status != 0                         ? ended.status
                     : o.require_exact && !ended.wrong.empty() ? static_cast<int>(Exit::kInternal)
                     : ended.refused                           ? static_cast<int>(ended.refused->code())
                                                               : 0;
        write_record(rank_group, run);
    }
    if (ended.status != 0) throw Stopped{ended.status};
    rank_group.phase([&] {
        require(!o.require_exact || ended.wrong.empty(), Exit::kInternal,
                "--require-exact: {} did not give the tokens of {}: this is a bug", ended.wrong, ended.baseline);
    });
    if (ended.refused) throw *ended.refused;
}

}  // namespace trireme
