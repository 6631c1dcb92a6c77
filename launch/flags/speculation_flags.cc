// The flags of speculation: who proposes, how much; and what a plan needs to know of TriForce's chain.

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

}  // namespace

FlagGroup speculation_flags() {
    using O = Options;
    using S = Setting;
    return {
        "Speculation",
        {
            {"spec",
             {"--spec"},
             kGenerate | kPlan,
             "CHAIN",
             "who proposes tokens, which the model then checks, several in one forward; the tokens have the model's "
             "law all the same: none, ngram (what followed the last tokens where they stood before), draft (a small "
             "model, --model-draft, over few tokens, --draft-window), window (the model itself over as few), retrieval "
             "(the model itself over chunks of the text that its last query picks, --retrieval-budget), tree (the "
             "same, "
             "but several tokens for a place, --tree-size), triforce (a draft that retrieval checks before the whole "
             "model does), or a chain such as ngram+retrieval+full",
             [](O& o, const S& s) {
                 const std::optional<ChainSpec> chain = parse_chain(s.text);
                 require(chain.has_value(), Exit::kConfig, "{} '{}': want {}", s.where, s.text, kLegalChains);
                 o.spec = *chain;
             },
             [](const O& o) { return text_of(o.spec); }},
            {"draft-window",
             {"--draft-window", "--draft_cache_budget"},
             kGenerate | kPlan,
             "TOKENS",
             "tokens of the text that whoever drafts sees: its first 16 and the most recent ones",
             [](O& o, const S& s) { o.draft_window = s.integer(2 * kMaxRows, kMostTokens); },
             [](const O& o) { return shown(o.draft_window); }},
            {"model-draft",
             {"-md", "--model-draft"},
             kGenerate | kPlan,
             "PATH",
             "the draft model, whole on every rank: a folder with config.json, or a .gguf file",
             [](O& o, const S& s) { o.model_draft = s.word(); },
             [](const O& o) { return o.model_draft; },
             "none"},
            {"spec-draft-n-max",
             {"--gamma", "--spec-draft-n-max"},
             kGenerate | kPlan,
             "COUNT",
             "tokens that are proposed, one behind the other, before the model checks them, 1 to 63",
             [](O& o, const S& s) { o.draft_tokens = s.integer(1, kMaxRows - 1); },
             [](const O& o) { return shown(o.draft_tokens); }},
            {"tree-size",
             {"--tree_size", "--tree-size"},
             kGenerate,
             "COUNT",
             "tokens of a proposed tree, --gamma of them one behind the other, 1 to 63",
             [](O& o, const S& s) { o.tree_size = s.integer(1, kMaxRows - 1); },
             [](const O& o) { return shown(o.tree_size); }},
            {"retrieval-budget",
             {"--budget", "--retrieval-budget"},
             kGenerate | kPlan,
             "TOKENS",
             "tokens of each layer that a retrieving level sees, beside the last 256; 0: 4096 where the chain "
             "retrieves",
             [](O& o, const S& s) { o.retrieval_budget = s.integer(0, kMostTokens); },
             [](const O& o) { return shown(o.retrieval_budget); }},
            {"retrieval-chunk",
             {"--chunk-size", "--chunk_size", "--retrieval-chunk"},
             kGenerate | kPlan,
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
             kGenerate | kPlan,
             "ROUNDS",
             "how often a retrieving level chooses its tokens anew: every (round), never (the prompt's last query "
             "chooses), or every so many rounds",
             [](O& o, const S& s) { o.reselect = read_reselect(s); },
             [](const O& o) {
                 return o.reselect == 1                        ? std::string("every")
                        : o.reselect == RetrievalShape::kNever ? "never"
                                                               : shown(o.reselect);
             }},
        }};
}

}  // namespace trireme
