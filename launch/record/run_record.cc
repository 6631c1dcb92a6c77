#include "launch/record/run_record.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sys/utsname.h>
#include <unistd.h>
#include <utility>

#include "dist/rank_env.h"
#include "generated/commit.h"
#include "launch/flags/flags.h"
#include "launch/flags/help.h"
#include "launch/record/record_file.h"
#include "launch/report/report.h"
#include "launch/report/speculation_facts.h"
#include "model/files/store/digest.h"
#include "runtime/log.h"
#include "runtime/random.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kFormat = 1;  // version of a run's sets
constexpr std::chrono::seconds kPatience(60), kPatienceOfStopped(1);

template <class Row>
RecordSet table(const char* name, const std::vector<Row>& rows) {
    constexpr size_t kColumns = Row::kColumns.size();
    static_assert(sizeof(Row) == kColumns * sizeof(int64_t));
    return {{.name = name,
             .type = DType::kI64,
             .shape = {static_cast<int64_t>(rows.size()), static_cast<int64_t>(kColumns)}},
            std::as_bytes(std::span(rows))};
}

OrderedJson columns() {
    return {{"texts", TextRow::kColumns},
            {"rounds", RoundRow::kColumns},
            {"checks", CheckRow::kColumns},
            {"link", LinkRow::kColumns},
            {"spans", SpanRow::kColumns}};
}

std::string kernel() {
    utsname names = {};
    return ::uname(&names) == 0 ? fmt::format("{} {} {}", names.sysname, names.release, names.machine) : "";
}

OrderedJson machine_of_rank(const Engine& engine) {
    const auto pages = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
    const auto page = static_cast<uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
    return {{"host", host_name()},
            {"kernel", kernel()},
            {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
            {"memory_bytes", pages * page},
            {"backend", engine.device().backend()},
            {"device", engine.device().name()},
            {"device_memory_bytes", engine.device().memory_total()},
            {"threads", engine.threads()}};
}

OrderedJson versions() {
    return {{"trireme", TRIREME_VERSION}, {"commit", TRIREME_COMMIT}, {"text", version_text()}};
}

/// Gathers the rows of all ranks, in rank order.
std::vector<LinkRow> gather_link(Comm& comm, const std::vector<LinkRow>& mine) {
    std::vector<LinkRow> all;
    const auto bytes = std::as_bytes(std::span(mine));
    for (const std::string& of_rank :
         comm.gather_bytes(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()))) {
        const size_t before = all.size();
        all.resize(before + of_rank.size() / sizeof(LinkRow));
        std::memcpy(all.data() + before, of_rank.data(), (all.size() - before) * sizeof(LinkRow));
    }
    return all;
}

OrderedJson about(const RecordedRun& run, const OrderedJson& ranks) {
    const Options& o = run.start.call.options;
    const LlamaConfig& config = run.engine.checkpoint().config();
    OrderedJson modes = run.log.modes();
    for (size_t m = 0; m < modes.size(); ++m) {
        modes[m]["levels"] = m < run.levels.size() ? run.levels[m] : OrderedJson::array();
    }
    OrderedJson all = {{"format", kFormat},
                       {"id", hex(drawn_by_system("an id"))},
                       {"command", name_of(*run.start.call.command)},
                       {"status", run.status},
                       {"ended", utc_now()},
                       {"versions", versions()},
                       {"command_line", run.start.command_line},
                       {"settings", shown_settings(run.start.call)},
                       {"settings_changed", changed_settings(run.start.call)},
                       {"model", model_facts(config)},
                       {"weights", run.engine.checkpoint().weight_type.name},
                       {"seed", o.seed.value_or(0)},
                       {"n_ranks", ranks.size()},
                       {"ranks", ranks},
                       {"placement", run.start.placement},
                       {"load_ms", run.engine.load_ms()},
                       {"link_gbps", o.link.gbps > 0 ? OrderedJson(o.link.gbps) : OrderedJson()},
                       {"modes", modes},
                       {"columns", columns()},
                       {"names", run.log.names()},
                       {"spans", run.log.span_facts()}};
    all["trace"] = o.trace.empty() ? OrderedJson() : OrderedJson(std::filesystem::absolute(o.trace).string());
    all.update(run.facts);
    return all;
}

}  // namespace

std::string mode_name(const Options& o) {
    if (o.eviction.policy != KvPolicy::kFull) return std::string(name_of(o.eviction.policy));
    return o.spec.parts.empty() ? "none" : find_key("spec")->show(o);
}

OrderedJson level_facts(const std::vector<ChainLevel>& levels) {
    OrderedJson all = OrderedJson::array();
    for (const ChainLevel& level : levels) all.push_back(speculation_facts(level.name, level.stats));
    return all;
}

void write_record(const RankGroup& rank_group, const RecordedRun& run) {
    const Options& o = run.start.call.options;
    if (o.record.empty()) return;
    run.log.close();
    OrderedJson ranks = OrderedJson::array();
    for (const std::string& of_rank : rank_group.comm().gather_bytes(machine_of_rank(run.engine).dump())) {
        ranks.push_back(OrderedJson::parse(of_rank));
    }
    const std::vector<LinkRow> link = gather_link(rank_group.comm(), run.log.link());
    const auto append = [&](const StillWaiting& waiting) {
        // Texts may end inside a character, and file names may contain any bytes.
        const std::string text = about(run, ranks).dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
        const int64_t number =
            append_run(o.record, text,
                       {table("texts", run.log.texts()), table("rounds", run.log.rounds()),
                        table("checks", run.log.checks()), table("link", link), table("spans", run.log.spans())},
                       run.status == 0 ? kPatience : kPatienceOfStopped, waiting);
        log::info("recorded as run {} of {}", number, o.record);
    };
    try {
        rank_group.first_only_waiting(append);
    } catch (const AgreedError& e) {  // thrown on all ranks
        if (run.status == 0) throw;
        log::warn("not recorded: {}", e.what());
    }
}

void write_score_record(const Start& start, const RankGroup& rank_group, const Engine& engine, int64_t tokens,
                        OrderedJson score) {
    RunLog log(start.call.options, rank_group.comm().rank(), rank_group.comm().size());
    log.mode(mode_name(start.call.options), 1, engine);
    log.done({.prompt_tokens = tokens});
    RecordedRun run = {.start = start, .engine = engine, .log = log};
    run.facts["score"] = std::move(score);
    write_record(rank_group, run);
}

}  // namespace trireme
