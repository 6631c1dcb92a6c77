// The flags of speculation: who proposes, how much; and what a plan needs to know of TriForce's chain.

#include <algorithm>

#include <fmt/ranges.h>

#include "launch/flags/chain_spec.h"
#include "launch/flags/flag_groups.h"
#include "runtime/error.h"

namespace trireme {
namespace {

int64_t read_reselect(const Setting& s) {
    if (s.text == "every") return 1;
    if (s.text == "never") return RetrievalShape::kNever;
    const std::optional<int64_t> rounds = parse_integer(s.text);
    require(rounds && *rounds >= 1 && *rounds <= kMostTokens, Exit::kConfig,
            "{} '{}': want every, never or a number of rounds from 1 on", s.where, s.text);
    return *rounds;
}

int64_t draft_length(const Setting& s) {
    if (s.text == "auto") return DraftLength::kAuto;
    return s.integer(1, DraftLength::kMost, " or auto");
}
std::string shown_length(int64_t n) {
    return n == DraftLength::kAuto ? "auto" : shown(n);
}

std::vector<double> read_rates(const Setting& s) {
    std::vector<double> rates;
    for (size_t from = 0; from <= s.text.size();) {
        const size_t end = std::min(s.text.find(',', from), s.text.size());
        rates.push_back(Setting{s.where, s.text.substr(from, end - from)}.real(0, 1));
        from = end + 1;
    }
    return rates;
}

}  // namespace

void set_spec(Options& o, const Setting& s) {
    const std::optional<ChainSpec> chain = parse_chain(s.text);
    require(chain.has_value(), Exit::kConfig, "{} '{}': want {}", s.where, s.text, kLegalChains);
    o.spec = *chain;
}

FlagGroup speculation_flags() {
    using O = Options;
    using S = Setting;
    return {
        "Speculation",
        {
            {"spec",
             {"--spec", "--spec-type"},
             kContinue | kPlan,
             "none|ngram|window|draft|h2o|retrieval|tree|triforce|CHAIN",
             "who proposes tokens, which the model then checks, several in one forward; the tokens have the model's "
             "law all the same: none, ngram (what followed the last tokens where they stood before), draft (a small "
             "model, --model-draft, over few tokens, --draft-window), window (the model itself over as few), h2o (the "
             "model itself over those that got most attention, and the most recent ones: --kv-window and what else "
             "--kv-policy h2o reads), retrieval (the model itself over chunks of the text that its last query picks, "
             "--retrieval-budget), tree (the "
             "same, but several tokens for a place, --tree-size), triforce (a draft that retrieval checks before the "
             "whole model does), or a chain such as ngram+retrieval+full",
             set_spec,
             [](const O& o) { return text_of(o.spec); }},
            {"draft-window",
             {"--draft-window", "--draft_cache_budget"},
             kDecode | kPlan,
             "TOKENS",
             "tokens of the text that whoever drafts sees, 128 or more: its first 16 and the most recent ones",
             [](O& o, const S& s) { o.draft_window = s.integer(2 * kMaxRows, kMostTokens); },
             [](const O& o) { return shown(o.draft_window); }},
            {"model-draft",
             {"-md", "--model-draft", "--draft-model", "--speculative-model"},
             kDecode | kPlan,
             "PATH",
             "the draft model, whole on every rank: a folder with config.json, or a .gguf file",
             [](O& o, const S& s) { o.model_draft = s.word(); },
             [](const O& o) { return o.model_draft; },
             "none"},
            {"spec-draft-n-max",
             {"--gamma", "--spec-draft-n-max", "--draft-max", "--draft-n", "--num-speculative-tokens"},
             kDecode | kPlan,
             "COUNT|auto",
             "tokens that are proposed before the model checks them, 1 to 63; auto: as many as make the most tokens a "
             "second, by what became of those before and by times that are measured behind the prompt; none where that "
             "is fastest",
             [](O& o, const S& s) { o.draft_tokens = draft_length(s); },
             [](const O& o) { return shown_length(o.draft_tokens); }},
            {"gamma-inner",
             {"--gamma-inner"},
             kDecode | kPlan,
             "COUNT|auto",
             "the same of a chain's inner level: tokens that the draft proposes to it",
             [](O& o, const S& s) { o.inner_draft_tokens = draft_length(s); },
             [](const O& o) { return shown_length(o.inner_draft_tokens); }},
            {"spec-costs",
             {"--spec-costs"},
             kContinue | kPlan,
             "REPORT",
             "a report (--report-json) of an earlier run with this --spec: draft lengths go by its times, none are "
             "measured, so that the same tokens come out; for a plan, of a run with all layers on chip, behind as many "
             "tokens",
             [](O& o, const S& s) { o.spec_costs = s.word(); },
             [](const O& o) { return o.spec_costs; },
             "measured"},
            {"accept-rate",
             {"--accept-rate"},
             kPlan,
             "RATE,...",
             "how often a token stays where it is checked (alpha of a bench), by the whole model, then by the levels "
             "below it: what a round takes and gives is then forecast",
             [](O& o, const S& s) { o.accept_rates = read_rates(s); },
             [](const O& o) { return fmt::format("{}", fmt::join(o.accept_rates, ",")); },
             "no forecast"},
            {"tree-size",
             {"--tree_size", "--tree-size"},
             kDecode,
             "COUNT",
             "tokens of a proposed tree, at most --gamma (auto: 16) of them one behind the other, 1 to 63",
             [](O& o, const S& s) { o.tree_size = s.integer(1, kMaxRows - 1); },
             [](const O& o) { return shown(o.tree_size); }},
            {"retrieval-budget",
             {"--budget", "--retrieval-budget"},
             kDecode | kPlan,
             "TOKENS",
             "tokens of each layer that a retrieving level sees, beside the last 256; 0: 4096 where the chain "
             "retrieves",
             [](O& o, const S& s) { o.retrieval_budget = s.integer(0, kMostTokens); },
             [](const O& o) { return shown(o.retrieval_budget); }},
            {"retrieval-chunk",
             {"--chunk-size", "--chunk_size", "--retrieval-chunk"},
             kDecode | kPlan,
             "TOKENS",
             "tokens that are retrieved together, and summed up in one mean key: a power of two up to 256",
             [](O& o, const S& s) {
                 const int64_t chunk = s.integer(1, kTileTokens);
                 require(kTileTokens % chunk == 0, Exit::kConfig, "{} {}: want a power of two from 1 to {}", s.where,
                         chunk, kTileTokens);
                 o.retrieval_chunk = chunk;
             },
             [](const O& o) { return shown(o.retrieval_chunk); }},
            {"reselect",
             {"--reselect"},
             kDecode | kPlan,
             "ROUNDS",
             "how often a retrieving level chooses its tokens anew: every (round), never (the prompt's last query "
             "chooses), or every so many rounds",
             [](O& o, const S& s) { o.reselect = read_reselect(s); },
             [](const O& o) {
                 return o.reselect == 1                        ? std::string("every")
                        : o.reselect == RetrievalShape::kNever ? "never"
                                                               : shown(o.reselect);
             }},
            {"reselect-queries",
             {"--reselect-queries"},
             kDecode | kPlan,
             "COUNT",
             "tokens whose queries' mean chooses then, 1 to 8: the last one, and those before it",
             [](O& o, const S& s) { o.reselect_queries = s.integer(1, 8); },
             [](const O& o) { return shown(o.reselect_queries); }},
        }};
}

}  // namespace trireme
