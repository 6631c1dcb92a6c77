// The flags of bench: what is measured, on which texts, and how it is shown.

#include <algorithm>

#include "launch/flags/flag_groups.h"
#include "launch/flags/modes.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

/// "draft", or "none@12": a chain and, behind @, layers on chip. "h2o": a policy, of which all is; the chain of that
/// name is "h2o+full" here.
Mode parse_mode(const S& s, const std::string& text) {
    const size_t at = text.find('@');
    Mode mode = {.name = text, .chain = text.substr(0, at)};
    if (const auto policy = std::ranges::find(kKvPolicyNames, mode.name); policy != std::end(kKvPolicyNames)) {
        mode.policy = static_cast<KvPolicy>(policy - std::begin(kKvPolicyNames));
        mode.chain = "none";
        return mode;
    }
    require(std::ranges::find(kKvPolicyNames, mode.chain) == std::end(kKvPolicyNames) || mode.chain == "full",
            Exit::kConfig, "{} '{}': a policy keeps everything on the device; the chain is {}+full", s.where, text,
            mode.chain);
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

constexpr const char* kTables[] = {"md", "csv", "json", "jsonl"};

}  // namespace

FlagGroup bench_flags() {
    return {"Measuring",
            {
                {"modes",
                 {"--modes"},
                 kBench | kPlan,
                 "LIST",
                 "what is measured, with commas between: chains as --spec of generate takes them (none: the model "
                 "alone). none@12: the same with the keys and values of 12 layers on chip, whatever --kv-on-chip says; "
                 "none@auto: with as many as fit without speculation. plan: what a round is compared with. "
                 "h2o, streaming ..: the model alone with that --kv-policy, which reads each text anew (h2o+full: the "
                 "chain --spec h2o)",
                 set_modes,
                 show_modes},
                {"repetitions",
                 {"-r", "--repetitions"},
                 kBench,
                 "COUNT",
                 "times that each mode continues each text, after once to warm up",
                 [](O& o, const S& s) { o.repetitions = s.integer(1, 10000); },
                 [](const O& o) { return shown(o.repetitions); }},
                {"prefill",
                 {"--prefill"},
                 kBench | kPlan,
                 "TOKENS",
                 "cut texts to that many tokens; shorter ones are left out, and counted. 0: whole texts. plan: tokens "
                 "of a prompt that --parallel's texts share",
                 [](O& o, const S& s) { o.prefill = s.size(0, kMostTokens); },
                 [](const O& o) { return shown(o.prefill); }},
                {"output",
                 {"-o", "--output"},
                 kBench,
                 "md|csv|json|jsonl",
                 "how the table is written to stdout; json has every repetition",
                 [](O& o, const S& s) {
                     o.table = static_cast<Table>(s.one_of({kTables[0], kTables[1], kTables[2], kTables[3]}));
                 },
                 [](const O& o) { return std::string(kTables[static_cast<size_t>(o.table)]); }},
                {"require-exact",
                 {"--require-exact"},
                 kBench,
                 "",
                 "end with code 70 unless every mode gives the tokens of the mode none; wants --temp 0",
                 [](O& o, const S& s) { o.require_exact = s.on(); },
                 [](const O& o) { return on_off(o.require_exact); }},
            }};
}

}  // namespace trireme
