// The flags of speculation: who proposes, how much; and what a plan needs to know of TriForce's chain.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

constexpr Spec kChains[] = {Spec::kNone, Spec::kNgram, Spec::kWindow, Spec::kDraft};
constexpr const char* kNames[] = {"none", "ngram", "window", "draft"};

}  // namespace

void set_spec(Options& o, const Setting& s) {
    o.spec = kChains[s.one_of({"none", "ngram", "window", "draft"})];
}

FlagGroup speculation_flags() {
    using O = Options;
    using S = Setting;
    return {
        "Speculation",
        {
            {"spec",
             {"--spec"},
             kGenerate,
             "CHAIN",
             "who proposes tokens, which the model then checks, several in one forward; the tokens have the model's "
             "law all the same: none, ngram (what followed the last tokens where they stood before), window (the model "
             "itself over few tokens, --draft-window), or draft (a small model, --model-draft, over as few)",
             set_spec,
             [](const O& o) { return std::string(kNames[static_cast<size_t>(o.spec)]); }},
            {"draft-window",
             {"--draft-window"},
             kDecode,
             "TOKENS",
             "tokens of the text that whoever drafts sees: its first 16 and the most recent ones",
             [](O& o, const S& s) { o.draft_window = s.integer(2 * kMaxRows, kMostTokens); },
             [](const O& o) { return shown(o.draft_window); }},
            {"model-draft",
             {"-md", "--model-draft"},
             kDecode | kPlan,
             "PATH",
             "the draft model, whole on every rank: a folder with config.json, or a .gguf file",
             [](O& o, const S& s) { o.model_draft = s.word(); },
             [](const O& o) { return o.model_draft; },
             "none"},
            {"spec-draft-n-max",
             {"--gamma", "--spec-draft-n-max"},
             kDecode | kPlan,
             "COUNT",
             "tokens that are proposed before the model checks them, 1 to 63",
             [](O& o, const S& s) { o.draft_tokens = s.integer(1, kMaxRows - 1); },
             [](const O& o) { return shown(o.draft_tokens); }},
            {"retrieval-budget",
             {"--retrieval-budget"},
             kPlan,
             "TOKENS",
             "retrieved tokens of each layer that proposals are checked against; 0: none",
             [](O& o, const S& s) { o.retrieval_budget = s.integer(0, kMostTokens); },
             [](const O& o) { return shown(o.retrieval_budget); }},
            {"retrieval-chunk",
             {"--retrieval-chunk"},
             kPlan,
             "TOKENS",
             "tokens that are retrieved together, and summed up in one mean key",
             [](O& o, const S& s) { o.retrieval_chunk = s.integer(1, kTileTokens); },
             [](const O& o) { return shown(o.retrieval_chunk); }},
        }};
}

}  // namespace trireme
