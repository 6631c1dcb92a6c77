#include "launch/report/report.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "dist/rank_env.h"
#include "generated/commit.h"
#include "launch/flags/flags.h"
#include "launch/report/speculation_facts.h"
#include "launch/run/kv_wire.h"
#include "launch/run/spec_costs.h"
#include "runtime/trace.h"

namespace trireme {

// RankFacts as JSON, for messages between ranks and for the report. Not in the anonymous namespace: argument-dependent
// lookup must find it.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, host, device, threads, read_bytes_per_step, weight_bytes_per_step,
                                   weight_bytes, kv_bytes, device_peak_bytes, peak_rss_bytes, host_kv_bytes, h2d_bytes,
                                   d2h_bytes, stall_ms, allreduce_ms)

namespace {

using OrderedJson = nlohmann::ordered_json;

/// Figures that lines and JSON share.
struct Rates {
    double prefill_tok_s, decode_tok_s, read_gbps;
    // Sums over ranks.
    uint64_t weight_bytes = 0, weight_bytes_per_step = 0, kv_bytes = 0, read_bytes_per_step = 0, peak_rss_bytes = 0;
};

double per_second(double count, double ms) {
    return ms > 0 ? count / ms * 1e3 : 0;
}

/// The number of decode forwards. The first token of each sample comes from the prefill.
double decode_steps(const RunReport& r) {
    return static_cast<double>(r.stats.rounds) - static_cast<double>(r.samples.size());
}

Rates rates(const RunReport& r) {
    Rates all = {};
    for (const RankFacts& f : r.ranks) {
        all.weight_bytes += f.weight_bytes;
        all.weight_bytes_per_step += f.weight_bytes_per_step;
        all.kv_bytes += f.kv_bytes;
        all.read_bytes_per_step += f.read_bytes_per_step;
        all.peak_rss_bytes += f.peak_rss_bytes;
    }
    all.prefill_tok_s = per_second(static_cast<double>(r.stats.prompt_tokens), r.stats.prefill_ms);
    all.decode_tok_s = per_second(1, r.stats.tpot_ms);
    all.read_gbps =
        per_second(static_cast<double>(all.read_bytes_per_step) * decode_steps(r) * 1e-9, r.stats.decode_ms);
    return all;
}

double mb(uint64_t bytes) {
    return static_cast<double>(bytes) * 1e-6;
}

/// Rank 0's figures of the link, over `steps` forwards that took `took_ms`. A GPU's copies are timed only with --trace.
OrderedJson link_facts(const LinkUse& use, double took_ms, double steps) {
    const double n = std::max(1.0, steps);
    const uint64_t h2d = use.h2d_bytes + use.hidden_h2d_bytes, d2h = use.d2h_bytes + use.hidden_d2h_bytes;
    OrderedJson facts = {{"steps", n},
                         {"h2d_bytes", use.h2d_bytes},
                         {"h2d_bytes_per_step", static_cast<double>(use.h2d_bytes) / n},
                         {"h2d_plain_bytes", use.h2d_plain_bytes},
                         {"d2h_bytes", use.d2h_bytes},
                         {"d2h_plain_bytes", use.d2h_plain_bytes},
                         {"hidden_h2d_bytes", use.hidden_h2d_bytes},
                         {"hidden_d2h_bytes", use.hidden_d2h_bytes}};
    if (h2d + d2h > 0 && use.h2d_ms + use.d2h_ms == 0) return facts;
    facts["h2d_gbps"] = use.h2d_gbps();
    facts["h2d_busy_frac"] = took_ms > 0 ? use.h2d_ms / took_ms : 0;
    facts["h2d_idle_ms"] = (took_ms - use.h2d_ms) / n;
    facts["d2h_gbps"] = per_second(static_cast<double>(d2h) * 1e-9, use.d2h_ms);
    facts["d2h_busy_frac"] = took_ms > 0 ? use.d2h_ms / took_ms : 0;
    facts["link_hidden_frac"] = use.hidden_frac();
    facts["stall_ms"] = use.stall_ms / n;
    facts["codec_ms"] = use.codec_ms / n;
    facts["compute_ms"] = (took_ms - use.stall_ms) / n;
    return facts;
}

double per(int64_t count, int64_t of) {
    return of > 0 ? static_cast<double>(count) / static_cast<double>(of) : 0;
}

/// The mean draft length, over rounds that requested tokens.
double draft_len(const SpeculationStats& s) {
    return per(s.asked, s.rounds - s.off);
}

/// The figures of a verifying level, also by round and by depth: the acceptance rate at each depth of a proposal.
OrderedJson checked_facts(const ChainLevel& level) {
    const SpeculationStats& s = level.stats;
    OrderedJson by_depth = OrderedJson::array();
    for (size_t d = 0; d < s.proposed_at.size() && s.proposed_at[d] > 0; ++d) {
        by_depth.push_back(per(s.accepted_at[d], s.proposed_at[d]));
    }
    OrderedJson proposed = OrderedJson::array(), accepted = OrderedJson::array();
    for (const RoundStats& round : level.rounds) {
        proposed.push_back(round.proposed);
        accepted.push_back(round.accepted);
    }
    OrderedJson facts = speculation_facts(level.name, s);
    facts["accept_rate_by_depth"] = by_depth;
    facts["proposed_by_round"] = proposed;
    facts["accepted_by_round"] = accepted;
    if (s.asked + s.off > 0) {
        facts["draft_len"] = draft_len(s);
        facts["rounds_off"] = s.off;
    }
    return facts;
}

OrderedJson residency_facts(const RunReport& r) {
    const Plan& p = r.engine.residency().plan;
    const Link& link = r.call.options.link;
    const bool emulated = link.gbps > 0 && p.streamed_layers > 0;
    OrderedJson all = {
        {"on_chip_layers", p.on_chip_layers}, {"streamed_layers", p.streamed_layers},     {"ring_bytes", p.ring_bytes},
        {"host_kv_bytes", p.kv.host},         {"planned_device_bytes", p.total().device}, {"emulated", emulated}};
    if (emulated) all["link_gbps"] = link.gbps;
    if (const Transport* transport = r.engine.model().cache().transport()) {
        const bool coded = r.engine.residency().input.coded;
        all["kv_wire"] = coded ? "coded" : "raw";
        if (coded) all["plain_tiles"] = transport->plain_tiles();
        all["prefill"] = link_facts(r.stats.prefill_link, r.stats.prefill_ms, 1);
        all["decode"] = link_facts(r.stats.decode_link, r.stats.decode_ms, decode_steps(r));
    }
    return all;
}

}  // namespace

OrderedJson model_facts(const LlamaConfig& c) {
    return {{"name", c.name},
            {"arch", c.family->model_type},
            {"n_layers", c.n_layers},
            {"dim", c.dim},
            {"n_heads", c.n_heads},
            {"n_kv_heads", c.n_kv_heads},
            {"head_dim", c.head_dim},
            {"ffn_dim", c.ffn_dim},
            {"vocab", c.vocab},
            {"context", c.context},
            {"rope_scaling", name_of(c.rope.scaling)},
            {"tied_embeddings", c.tied_embeddings}};
}

OrderedJson shown_settings(const Invocation& call) {
    OrderedJson all = OrderedJson::object();
    for (const Flag& flag : flags()) {
        if (flag.belongs_to(*call.command)) all[std::string(flag.name)] = flag.show(call.options);
    }
    return all;
}

OrderedJson changed_settings(const Invocation& call) {
    const Options fresh;
    OrderedJson all = OrderedJson::array();
    for (const Flag& flag : flags()) {
        if (flag.belongs_to(*call.command) && flag.show(call.options) != flag.show(fresh)) all.push_back(flag.name);
    }
    return all;
}

std::string utc_now() {
    const std::time_t t = std::time(nullptr);
    std::tm parts = {};
    ::gmtime_r(&t, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// The largest resident set of this program. getrusage's ru_maxrss may be that of the parent process, if that is
/// larger: the kernel keeps it across exec.
uint64_t peak_rss_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
    }
    struct rusage usage = {};  // without /proc
    ::getrusage(RUSAGE_SELF, &usage);
    return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

RankFacts own_facts(const Engine& e, const GenerateStats& stats) {
    const Transport* transport = e.model().cache().transport();
    return {.host = host_name(),
            .device = e.device().name(),
            .threads = e.threads(),
            .read_bytes_per_step = stats.read_bytes_per_step,
            .weight_bytes_per_step = e.weights().bytes_per_step(),
            .weight_bytes = e.weights().bytes(),
            .kv_bytes = e.model().cache().bytes_of(e.model().context()),
            .device_peak_bytes = e.device().peak(Space::kDevice),
            .peak_rss_bytes = peak_rss_bytes(),
            .host_kv_bytes = transport != nullptr ? transport->host_bytes() : e.model().cache().facts().memory.host,
            .h2d_bytes = stats.prefill_link.h2d_bytes + stats.decode_link.h2d_bytes,
            .d2h_bytes = stats.prefill_link.d2h_bytes + stats.decode_link.d2h_bytes,
            .stall_ms = stats.prefill_link.stall_ms + stats.decode_link.stall_ms,
            .allreduce_ms = static_cast<double>(trace::total("all_reduce").ns) * 1e-6};
}

std::vector<RankFacts> gather_facts(Comm& comm, const RankFacts& mine) {
    std::vector<RankFacts> all;
    for (const std::string& s : comm.gather_bytes(nlohmann::json(mine).dump())) {
        all.push_back(nlohmann::json::parse(s).get<RankFacts>());
    }
    return all;
}

std::vector<std::string> acceptance_lines(const std::vector<ChainLevel>& levels) {
    std::vector<std::string> lines;
    for (const ChainLevel& level : levels) {
        const SpeculationStats& s = level.stats;
        const std::string lengths = s.asked + s.off > 0 ? fmt::format("; draft length {:.1f}, none in {} of {} rounds",
                                                                      draft_len(s), s.off, s.rounds)
                                                        : "";
        const std::string siblings =
            s.siblings > 0 ? fmt::format("; {} siblings, {} of them accepted", s.siblings, s.rescued) : "";
        lines.push_back(fmt::format("accept  {:10.1f} %   of {} tokens proposed by {}, {:.2f} tokens a round{}{}",
                                    100 * s.accept_rate(), s.proposed, level.name, s.accept_len(), lengths, siblings));
    }
    return lines;
}

std::vector<std::string> report_lines(const RunReport& r) {
    const Rates all = rates(r);
    const GenerateStats& t = r.stats;
    const double steps = std::max(1.0, decode_steps(r));
    std::string stops;
    for (const Continuation& c : r.samples) stops += fmt::format("{}{}", stops.empty() ? "" : ", ", name_of(c.stop));
    std::vector<std::string> lines = {
        fmt::format("load    {:10.1f} ms  on {} x {} threads", r.engine.load_ms(),
                    r.ranks.size() == 1 ? "1 rank" : fmt::format("{} ranks", r.ranks.size()), r.engine.threads()),
        t.resume_ms > 0 ? fmt::format("resumed {:9.1f} ms  {} tokens of the snapshot's prompt, ttft {:.1f} ms",
                                      t.resume_ms, t.prompt_tokens, t.ttft_ms)
                        : fmt::format("prefill {:10.1f} ms  {} tokens{}, {:.1f} tok/s, ttft {:.1f} ms", t.prefill_ms,
                                      t.prompt_tokens, t.passes > 1 ? fmt::format(" in {} passes", t.passes) : "",
                                      all.prefill_tok_s, t.ttft_ms),
        fmt::format("decode  {:10.1f} ms  {} tokens, {:.1f} tok/s, tpot {:.3f} ms, reads {:.1f} GB/s", t.decode_ms,
                    t.new_tokens, all.decode_tok_s, t.tpot_ms, all.read_gbps),
        fmt::format("memory  {:10.1f} MB  peak RSS; weights {} {:.1f} MB, KV {}/{}{} {:.1f} MB for {} tokens",
                    mb(all.peak_rss_bytes), r.engine.checkpoint().weight_type.name, mb(all.weight_bytes),
                    name_of(r.call.options.cache_type_k), name_of(r.call.options.cache_type_v),
                    kv_lossy(r.call.options) ? " (lossy)" : "", mb(all.kv_bytes), r.engine.model().context()),
    };
    if (t.warmup_ms > 0) lines.push_back(fmt::format("warm-up {:10.1f} ms  what forwards take", t.warmup_ms));
    const LinkUse& link = t.decode_link;
    if (r.engine.residency().plan.streamed_layers > 0) {
        const std::string rate = link.h2d_ms > 0
                                     ? fmt::format(", {:.1f} GB/s{}; {:.0f} % hidden, {:.3f} ms stalled a step",
                                                   link.h2d_gbps(), r.call.options.link.gbps > 0 ? " (emulated)" : "",
                                                   100 * link.hidden_frac(), link.stall_ms / steps)
                                     : "";
        const std::string coded = r.engine.residency().input.coded
                                      ? fmt::format(" (coded; {:.1f} MB plain)", mb(link.h2d_plain_bytes) / steps)
                                      : "";
        lines.push_back(fmt::format("link    {:10.1f} MB  a step{}{}", mb(link.h2d_bytes) / steps, coded, rate));
    }
    for (const std::string& line : acceptance_lines(r.levels)) lines.push_back(line);
    lines.push_back(fmt::format("stopped by {}", stops));
    return lines;
}

std::string report_json(const RunReport& r) {
    const Rates all = rates(r);
    const GenerateStats& t = r.stats;
    OrderedJson samples = OrderedJson::array();
    for (const Continuation& c : r.samples) {
        samples.push_back({{"ids", c.ids}, {"text", c.text}, {"stop", name_of(c.stop)}});
    }
    OrderedJson levels = OrderedJson::array();
    for (const ChainLevel& level : r.levels) levels.push_back(checked_facts(level));
    const OrderedJson json = {
        {"version", TRIREME_VERSION},
        {"build_commit", TRIREME_COMMIT},
        {"test_time", utc_now()},
        {"command_line", r.command_line},
        {"seed", r.call.options.seed.value()},
        {"settings", shown_settings(r.call)},
        {"model", model_facts(r.engine.checkpoint().config())},
        {"weights",
         {{"dtype", name_of(r.engine.checkpoint().weight_type.type())},
          {"blocks", r.engine.checkpoint().weight_type.format.has_blocks()},
          {"reason", r.engine.checkpoint().weight_type.reason}}},
        {"context", r.engine.model().context()},
        {"n_ranks", r.ranks.size()},
        {"n_threads", r.engine.threads()},
        {"n_prompt", t.prompt_tokens},
        {"n_gen", t.new_tokens},
        {"rounds", t.rounds},
        {"load_ms", r.engine.load_ms()},
        {"prefill_ms", t.prefill_ms},
        {"resume_ms", t.resume_ms},
        {"taken_up_ms", t.resume_ms},  // the old name, for one release
        {"passes", t.passes},
        {"prefill_tok_s", all.prefill_tok_s},
        {"warmup_ms", t.warmup_ms},
        {"ttft_ms", t.ttft_ms},
        {"decode_ms", t.decode_ms},
        {"tpot_ms", t.tpot_ms},
        {"decode_tok_s", all.decode_tok_s},
        {"allreduce_ms", r.ranks[0].allreduce_ms},
        {"read_bytes_per_step", all.read_bytes_per_step},
        {"read_gbps", all.read_gbps},
        {"weight_bytes", all.weight_bytes},
        {"weight_bytes_per_step", all.weight_bytes_per_step},
        {"kv_bytes", all.kv_bytes},
        {"kv_lossy", kv_lossy(r.call.options)},
        {"peak_rss_bytes", all.peak_rss_bytes},
        {"residency", residency_facts(r)},
        {"speculation", levels},
        {"spec_costs", OrderedJson::parse(as_json(r.costs))},
        {"ranks", nlohmann::json(r.ranks)},
        {"samples", samples},
    };
    // A sample may end inside a character. Its bytes are then not valid UTF-8, which JSON requires.
    return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace trireme
