// The flags of speculation: chain, draft lengths, retrieval, and what a plan assumes.

#include <algorithm>

#include <fmt/ranges.h>

#include "decode/branched_chain.h"
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
    if (s.text == "auto") return GammaController::kAuto;
    return s.integer(1, GammaController::kMost, " or auto");
}
std::string shown_length(int64_t n) {
    return n == GammaController::kAuto ? "auto" : shown(n);
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
    return {"Speculation",
            {
                {"spec",
                 {"--spec", "--spec-type"},
                 kContinue | kPlan,
                 "none|ngram|suffix|window|draft|h2o|retrieval|tree|triforce|CHAIN",
                 "draft method of speculative decoding; the output distribution is unchanged. ngram: earlier "
                 "occurrences of the last tokens. suffix: the longest end that occurs elsewhere, also in "
                 "--suffix-corpus. draft: a small model (-md). window: the model over its first "
                 "and recent tokens. h2o: the model over heavy hitters (--kv-window). retrieval: the model over "
                 "selected chunks (--budget). tree: a token tree, retrieval. triforce: draft, verified by "
                 "retrieval, verified by the model. Or a chain, for example suffix+retrieval+full",
                 set_spec,
                 [](const O& o) { return text_of(o.spec); }},
                {"draft-window",
                 {"--draft-window", "--draft_cache_budget"},
                 kDecode | kPlan,
                 "TOKENS",
                 "context window of the draft, 128 or more: its first 16 and the most recent tokens",
                 [](O& o, const S& s) { o.draft_window = s.integer(2 * kMaxRows, kMostTokens); },
                 [](const O& o) { return shown(o.draft_window); }},
                {"model-draft",
                 {"-md", "--model-draft", "--draft-model", "--speculative-model"},
                 kDecode | kPlan,
                 "PATH",
                 "draft model, complete on every rank: a folder with config.json, or a .gguf file",
                 [](O& o, const S& s) { o.model_draft = s.word(); },
                 [](const O& o) { return o.model_draft; },
                 "none"},
                {"spec-draft-n-max",
                 {"--gamma", "--spec-draft-n-max", "--draft-max", "--draft-n", "--num-speculative-tokens"},
                 kDecode | kPlan,
                 "COUNT|auto",
                 "draft length, 1 to 63; auto: adapts to measured costs and acceptance, and drafts nothing where "
                 "that is fastest",
                 [](O& o, const S& s) { o.gamma = draft_length(s); },
                 [](const O& o) { return shown_length(o.gamma); }},
                {"gamma-inner",
                 {"--gamma-inner"},
                 kDecode | kPlan,
                 "COUNT|auto",
                 "draft length of the inner level of a two-level chain",
                 [](O& o, const S& s) { o.gamma_inner = draft_length(s); },
                 [](const O& o) { return shown_length(o.gamma_inner); }},
                {"suffix-corpus",
                 {"--suffix-corpus"},
                 kDecode,
                 "PATH",
                 "texts that suffix searches in addition to prompt and output, such as earlier outputs: a file or a "
                 "folder of .txt and .jsonl files (also what batch writes)",
                 [](O& o, const S& s) { o.suffix_corpus = s.word(); },
                 [](const O& o) { return o.suffix_corpus; },
                 "none"},
                {"spec-costs",
                 {"--spec-costs"},
                 kContinue | kPlan,
                 "REPORT",
                 "a report (--report-json) of an earlier run with this chain: its times set the draft lengths, "
                 "so the same tokens come out. plan: of a run with all layers on chip at a similar context length",
                 [](O& o, const S& s) { o.spec_costs = s.word(); },
                 [](const O& o) { return o.spec_costs; },
                 "measured"},
                {"accept-rate",
                 {"--accept-rate"},
                 kPlan,
                 "RATE,...",
                 "plan: expected acceptance rates (alpha of a bench), of the full model, then of the levels "
                 "below it",
                 [](O& o, const S& s) { o.accept_rates = read_rates(s); },
                 [](const O& o) { return fmt::format("{}", fmt::join(o.accept_rates, ",")); },
                 "no forecast"},
                {"tree-size",
                 {"--tree_size", "--tree-size"},
                 kDecode,
                 "COUNT",
                 "nodes of a drafted tree, 1 to 63; at most --gamma (auto: 16) deep",
                 [](O& o, const S& s) { o.tree_size = s.integer(1, kMaxRows - 1); },
                 [](const O& o) { return shown(o.tree_size); }},
                {"siblings",
                 {"--siblings"},
                 kDecode,
                 "COUNT|auto",
                 "alternatives to each drafted token, 0 to 7, verified in the same forward of the model; fewer if they "
                 "exceed 63 rows. auto: with --gamma auto, adapts to measured costs and acceptance; else 0",
                 [](O& o, const S& s) {
                     o.siblings = s.text == "auto" ? GammaController::kAutoSiblings
                                                   : s.integer(0, BranchedChain::kMostSiblings, " or auto");
                 },
                 [](const O& o) { return o.siblings == GammaController::kAutoSiblings ? "auto" : shown(o.siblings); }},
                {"retrieval-budget",
                 {"--budget", "--retrieval-budget"},
                 kDecode | kPlan,
                 "TOKENS",
                 "tokens per layer that retrieval selects, in addition to the last 256; 0: 4096 if the chain "
                 "retrieves",
                 [](O& o, const S& s) { o.retrieval_budget = s.integer(0, kMostTokens); },
                 [](const O& o) { return shown(o.retrieval_budget); }},
                {"retrieval-chunk",
                 {"--chunk-size", "--chunk_size", "--retrieval-chunk"},
                 kDecode | kPlan,
                 "TOKENS",
                 "tokens per chunk, a power of two up to 256; a chunk is scored by its mean key",
                 [](O& o, const S& s) {
                     const int64_t chunk = s.integer(1, kTileTokens);
                     require(kTileTokens % chunk == 0, Exit::kConfig, "{} {}: want a power of two from 1 to {}",
                             s.where, chunk, kTileTokens);
                     o.retrieval_chunk = chunk;
                 },
                 [](const O& o) { return shown(o.retrieval_chunk); }},
                {"reselect",
                 {"--reselect"},
                 kDecode | kPlan,
                 "ROUNDS",
                 "how often retrieval selects again: every round, never (after the prompt only), or every ROUNDS "
                 "rounds",
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
                 "recent queries that are averaged for re-selection, 1 to 8",
                 [](O& o, const S& s) { o.reselect_queries = s.integer(1, 8); },
                 [](const O& o) { return shown(o.reselect_queries); }},
            }};
}

}  // namespace trireme
