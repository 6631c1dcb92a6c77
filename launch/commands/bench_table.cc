#include "launch/commands/bench_table.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "launch/commands/median.h"
#include "launch/report/speculation_facts.h"
#include "launch/run/spec_costs.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

double mean(const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return sum / static_cast<double>(v.size());
}

/// Standard deviation with n - 1, as in llama-bench.
double deviation(const std::vector<double>& v) {
    if (v.size() < 2) return 0;
    const double m = mean(v);
    double sum = 0;
    for (const double x : v) sum += (x - m) * (x - m);
    return std::sqrt(sum / static_cast<double>(v.size() - 1));
}

template <class Get>
std::vector<double> of_runs(const BenchResult& result, const Get& get) {
    std::vector<double> all;
    for (const BenchRun& run : result.runs) all.push_back(get(run));
    return all;
}

std::vector<double> rates_of(const BenchResult& r) {
    return of_runs(r, [](const BenchRun& run) { return run.tokens_per_s(); });
}

void add_times(OrderedJson& row, const BenchFacts& facts, const BenchResult& r) {
    const std::vector<double> ns = of_runs(r, [](const BenchRun& run) { return std::round(run.decode_ms * 1e6); });
    const std::vector<double> ts = rates_of(r);
    row["avg_ns"] = std::llround(mean(ns));
    row["stddev_ns"] = std::llround(deviation(ns));
    row["avg_ts"] = mean(ts);
    row["stddev_ts"] = deviation(ts);
    row["median_ts"] = median(ts);
    OrderedJson samples = OrderedJson::array();
    for (const double x : ns) samples.push_back(std::llround(x));
    row["samples_ns"] = samples;
    row["samples_ts"] = ts;
    row["prefill_ms"] = r.prefill_ms;
    row["prefill_tok_s"] = r.prefill_ms > 0 ? static_cast<double>(facts.n_prompt) / r.prefill_ms * 1e3 : 0;
    row["ttft_ms"] = median(of_runs(r, [](const BenchRun& run) { return run.ttft_ms; }));
    row["tpot_ms"] = median(of_runs(r, [](const BenchRun& run) { return run.tpot_ms(); }));
    row["decode_ms"] = median(of_runs(r, [](const BenchRun& run) { return run.decode_ms; }));
    row["passes"] = r.passes;
}

/// Adds the figures of the outermost level, and a list of all levels.
void add_levels(OrderedJson& row, const BenchResult& r) {
    OrderedJson levels = OrderedJson::array();
    for (const BenchLevel& level : r.levels) levels.push_back(speculation_facts(level.chain, level.stats));
    for (const char* name : {"accept_rate", "accept_len", "alpha", "draft_ms", "verify_ms"}) {
        row[name] = levels.empty() ? OrderedJson() : levels[0][name];
    }
    row["levels"] = levels;
    row["spec_costs"] = OrderedJson::parse(as_json(r.costs));
}

/// Milliseconds of a round, or of a forward of plain decoding, in which no copy to the device is in flight.
double idle_ms(const BenchResult& r, const LinkUse& link) {
    double took_ms = 0;
    int64_t rounds = 0;
    for (const BenchRun& run : r.runs) {
        took_ms += run.decode_ms;
        rounds += run.tokens - run.samples;
    }
    if (!r.levels.empty()) rounds = r.levels[0].stats.rounds;
    return (took_ms - link.h2d_ms) / std::max(1.0, static_cast<double>(rounds) / static_cast<double>(r.parallel));
}

void add_link(OrderedJson& row, const BenchResult& r) {
    LinkUse link;
    for (const BenchRun& run : r.runs) link = link + run.link;
    const uint64_t bytes = link.h2d_bytes + link.hidden_h2d_bytes;
    row["h2d_bytes"] = bytes / r.runs.size();
    row["h2d_plain_bytes"] = (link.h2d_plain_bytes + link.hidden_h2d_bytes) / r.runs.size();
    row["codec_ms"] = link.codec_ms / static_cast<double>(r.runs.size());
    const LinkUse& prompts = r.prefill_link;
    row["prefill_h2d_bytes"] = prompts.h2d_bytes + prompts.hidden_h2d_bytes;
    row["prefill_d2h_bytes"] = prompts.d2h_bytes + prompts.hidden_d2h_bytes;
    row["kv_bytes"] = r.kv_bytes;
    // A GPU's copies are timed only with --trace.
    const bool timed = link.h2d_ms > 0;
    row["h2d_gbps"] = timed ? OrderedJson(link.h2d_gbps()) : OrderedJson();
    row["link_hidden_frac"] = timed ? OrderedJson(link.hidden_frac()) : OrderedJson();
    row["link_idle_ms"] = timed ? OrderedJson(idle_ms(r, link)) : OrderedJson();
    row["allreduce_ms"] = mean(of_runs(r, [](const BenchRun& run) { return run.allreduce_ms; }));
}

struct Column {
    const char *heading, *name;
    int digits;        // after the decimal point; -1: as it is
    double scale = 1;  // factor of the value
};
constexpr Column kModeColumns[] = {{"data", "dataset", -1},
                                   {"T", "at_temp", -1},
                                   {"mode", "mode", -1},
                                   {"KV on chip", "kv_on_chip", -1},
                                   {"pp", "n_prompt", -1},
                                   {"tg", "n_gen", -1},
                                   {"runs", "runs", -1},
                                   {"prefill t/s", "prefill_tok_s", 2},
                                   {"t/s", "avg_ts", 2},
                                   {"median t/s", "median_ts", 2},
                                   {"tpot_ms", "tpot_ms", 3},
                                   {"speedup", "speedup", 2},
                                   {"accept_rate", "accept_rate", 3},
                                   {"accept_len", "accept_len", 2},
                                   {"alpha", "alpha", 3},
                                   {"draft_ms", "draft_ms", 3},
                                   {"verify_ms", "verify_ms", 3},
                                   {"h2d_gbps", "h2d_gbps", 2},
                                   {"link_hidden_frac", "link_hidden_frac", 3},
                                   {"link_idle_ms", "link_idle_ms", 3},
                                   {"exact", "exact", -1}};

constexpr Column kSideBySideColumns[] = {{"data", "dataset", -1},
                                         {"T", "at_temp", -1},
                                         {"mode", "mode", -1},
                                         {"KV on chip", "kv_on_chip", -1},
                                         {"np", "n_parallel", -1},
                                         {"pp", "n_prompt", -1},
                                         {"tg", "n_gen", -1},
                                         {"runs", "runs", -1},
                                         {"passes", "passes", -1},
                                         {"prefill s", "prefill_ms", 3, 1e-3},
                                         {"decode s", "decode_ms", 3, 1e-3},
                                         {"t/s", "avg_ts", 2},
                                         {"median t/s", "median_ts", 2},
                                         {"tpot_ms", "tpot_ms", 3},
                                         {"speedup", "speedup", 2},
                                         {"accept_rate", "accept_rate", 3},
                                         {"accept_len", "accept_len", 2},
                                         {"KV MB", "kv_bytes", 1, 1e-6},
                                         {"link MB", "h2d_bytes", 1, 1e-6},
                                         {"link_hidden_frac", "link_hidden_frac", 3},
                                         {"exact", "exact", -1}};

/// The columns of a table of chains, or of parallel samples.
std::span<const Column> columns_of(const std::vector<OrderedJson>& rows) {
    const bool beside = std::ranges::any_of(rows, [](const OrderedJson& row) { return row.at("n_parallel") > 1; });
    return beside ? std::span<const Column>(kSideBySideColumns) : std::span<const Column>(kModeColumns);
}

std::string cell(const OrderedJson& row, const Column& column) {
    const OrderedJson& value = row.at(column.name);
    if (value.is_null()) return "-";
    if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
    if (value.is_string()) return value.get<std::string>();
    if (column.digits < 0) return value.dump();
    const std::string text = fmt::format("{:.{}f}", value.get<double>() * column.scale, column.digits);
    const bool spread = std::string_view(column.name) == "avg_ts";
    return spread ? fmt::format("{} ± {:.2f}", text, row.at("stddev_ts").get<double>()) : text;
}

/// Pads columns to their widest cell. The first is left-aligned, the others right-aligned.
/// `wide`: with the columns in which no row has a value.
std::string md(const std::vector<OrderedJson>& rows, bool wide) {
    std::vector<std::vector<std::string>> lines(1 + rows.size());
    std::vector<size_t> widths;
    const auto width = [](const std::string& s) {  // in characters: ± has two bytes
        return static_cast<size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
    };
    for (const Column& column : columns_of(rows)) {
        const auto empty = [&](const OrderedJson& row) { return row.at(column.name).is_null(); };
        if (!wide && std::ranges::all_of(rows, empty)) continue;
        lines[0].emplace_back(column.heading);
        for (size_t r = 0; r < rows.size(); ++r) lines[r + 1].push_back(cell(rows[r], column));
        size_t widest = 0;
        for (const auto& line : lines) widest = std::max(widest, width(line.back()));
        widths.push_back(widest);
    }
    std::string text;
    for (size_t l = 0; l < lines.size(); ++l) {
        for (size_t c = 0; c < widths.size(); ++c) {
            const std::string blank(widths[c] - width(lines[l][c]), ' ');
            text += c == 0 ? fmt::format("| {}{} |", lines[l][c], blank) : fmt::format(" {}{} |", blank, lines[l][c]);
        }
        text += '\n';
        if (l > 0) continue;
        for (size_t c = 0; c < widths.size(); ++c) {
            const std::string dashes(widths[c], '-');
            text += c == 0 ? fmt::format("| {} |", dashes) : fmt::format(" {}: |", dashes.substr(1));
        }
        text += '\n';
    }
    return text;
}

std::string csv_field(std::string_view text) {
    if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
    return out + '"';
}

std::string csv(const std::vector<OrderedJson>& rows) {
    std::string text;
    const auto line = [&](const OrderedJson& row, bool names) {
        std::string all;
        for (const auto& [name, value] : row.items()) {
            if (value.is_array() || value.is_object()) continue;
            const std::string shown = value.is_null()     ? ""
                                      : value.is_string() ? value.template get<std::string>()
                                                          : value.dump();
            all += (all.empty() ? "" : ",") + csv_field(names ? name : shown);
        }
        text += all + '\n';
    };
    if (!rows.empty()) line(rows.front(), true);
    for (const OrderedJson& row : rows) line(row, false);
    return text;
}

}  // namespace

std::vector<OrderedJson> bench_rows(const BenchFacts& facts, const std::vector<BenchResult>& results) {
    const BenchResult* baseline = baseline_of(results);
    std::vector<OrderedJson> rows;
    for (const BenchResult& r : results) {
        if (r.runs.empty()) continue;
        OrderedJson row = {{"mode", r.mode}};
        row.update(facts.run);
        row["kv_on_chip"] = fmt::format("{}/{}", r.on_chip, r.layers);
        row["n_prompt"] = facts.n_prompt;
        row["n_gen"] = facts.n_gen;
        row["n_depth"] = facts.n_prompt;
        row["n_parallel"] = r.parallel;
        row["texts"] = facts.texts;
        row["texts_left_out"] = facts.texts_left_out;
        row["repetitions"] = facts.repetitions;
        row["runs"] = r.runs.size();
        add_times(row, facts, r);
        row["speedup"] =
            baseline == nullptr ? OrderedJson() : OrderedJson(median(rates_of(r)) / median(rates_of(*baseline)));
        add_levels(row, r);
        add_link(row, r);
        const std::optional<std::string> other = difference(r, baseline, facts.greedy);
        row["exact"] = other ? OrderedJson(other->empty()) : OrderedJson();
        row["dataset"] = facts.dataset.empty() ? OrderedJson() : OrderedJson(facts.dataset);
        row["at_temp"] = facts.at_temp ? OrderedJson(*facts.at_temp) : OrderedJson();
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string table_text(Table table, const std::vector<OrderedJson>& rows) {
    // Names of files and texts may contain bytes that are not valid UTF-8, which JSON requires.
    const auto dump = [](const OrderedJson& json, int indent) {
        return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    };
    switch (table) {
        case Table::kMd:
        case Table::kWide:
            return md(rows, table == Table::kWide);
        case Table::kCsv:
            return csv(rows);
        case Table::kJson:
            return dump(OrderedJson(rows), 2);
        case Table::kJsonl:
            break;
    }
    std::string text;
    for (const OrderedJson& row : rows) text += dump(row, -1);
    return text;
}

}  // namespace trireme
