// The flags of bench: modes, texts and the table.

#include <algorithm>

#include "launch/flags/flag_groups.h"
#include "launch/flags/modes.h"
#include "runtime/index.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

/// Parses "draft" or "none@12": a chain and, after @, the number of layers on chip. "h2o" and its like name a policy,
/// and @ its budget; the chain of that name is "h2o+full" here. "full" is none.
Mode parse_mode(const S& s, const std::string& text) {
    const size_t at = text.find('@');
    Mode mode = {.name = text, .chain = text.substr(0, at)};
    if (mode.chain == "full") mode.chain = "none";
    const auto policy = std::ranges::find(kPolicies, mode.chain, &PolicyRow::name);
    if (policy != kPolicies.end()) {
        mode.policy = static_cast<KvPolicy>(policy - kPolicies.begin());
        mode.chain = "none";
        if (at != std::string::npos) {
            mode.budget = Setting{s.where, text.substr(at + 1)}.size(2, kMostTokens, "tokens of the policy's budget");
        }
        return mode;
    }
    Options scratch;
    set_spec(scratch, {s.where, mode.chain});
    if (at != std::string::npos) mode.kv_on_chip = layers_on_chip({s.where, text.substr(at + 1)});
    return mode;
}

void set_modes(O& o, const S& s) {
    o.modes.clear();
    for (size_t from = 0; from <= s.text.size();) {
        const size_t end = std::min(s.text.find(',', from), s.text.size());
        Mode mode = parse_mode(s, s.text.substr(from, end - from));
        for (const Mode& other : o.modes) {
            require(other.name != mode.name, Exit::kConfig, "{} '{}': names {} twice", s.where, s.text, mode.name);
        }
        o.modes.push_back(std::move(mode));
        from = end + 1;
    }
}

std::string show_modes(const O& o) {
    std::string all;
    for (const Mode& mode : o.modes) all += (all.empty() ? "" : ",") + mode.name;
    return all;
}

constexpr const char* kTables[] = {"md", "wide", "csv", "json", "jsonl"};

}  // namespace

FlagGroup bench_flags() {
    return {
        "Measuring",
        {
            {"modes",
             {"--modes"},
             kBench | kPlan | kEvaluate,
             "LIST",
             "what to measure: chains as --spec takes them, none (plain decoding), or an eviction policy. "
             "none@12: with 12 layers on chip; none@auto: what memory allows. h2o is the policy, h2o@512 with a "
             "budget of 512 tokens, h2o+full the chain. plan: baselines of a round",
             set_modes,
             show_modes},
            {"repetitions",
             {"-r", "--repetitions"},
             kBench,
             "COUNT",
             "measured runs of each mode and document, after one warm-up",
             [](O& o, const S& s) { o.repetitions = s.integer(1, 10000); },
             [](const O& o) { return shown(o.repetitions); }},
            {"prefill",
             {"--prefill"},
             kBench | kPlan,
             "TOKENS",
             "truncate documents to this length; shorter ones are skipped and counted. 0: whole documents. "
             "plan: prompt tokens that --parallel's sequences share",
             [](O& o, const S& s) { o.prefill = s.size(0, kMostTokens); },
             [](const O& o) { return shown(o.prefill); }},
            {"output",
             {"-o", "--output"},
             kBench,
             "md|wide|csv|json|jsonl",
             "format of the table; wide: md with empty columns; json has every run",
             [](O& o, const S& s) {
                 o.table = static_cast<Table>(s.one_of({kTables[0], kTables[1], kTables[2], kTables[3], kTables[4]}));
             },
             [](const O& o) { return std::string(kTables[index(o.table)]); }},
            {"require-exact",
             {"--require-exact"},
             kBench,
             "",
             "exit with 70 unless each mode has the tokens of mode none; requires --temp 0",
             [](O& o, const S& s) { o.require_exact = s.on(); },
             [](const O& o) { return on_off(o.require_exact); }},
        }};
}

}  // namespace trireme
