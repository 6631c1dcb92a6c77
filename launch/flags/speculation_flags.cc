// The flags of speculation over retrieved keys and values (TriForce): so far what a plan needs to know of it.

#include "launch/flags/flag_groups.h"

namespace trireme {

FlagGroup speculation_flags() {
    using O = Options;
    using S = Setting;
    return {"Speculation, as a plan counts it",
            {
                {"model-draft",
                 {"-md", "--model-draft"},
                 kPlan,
                 "PATH",
                 "the draft model, whole on every rank: a folder with config.json, or a .gguf file",
                 [](O& o, const S& s) { o.model_draft = s.word(); },
                 [](const O& o) { return o.model_draft; },
                 "none"},
                {"spec-draft-n-max",
                 {"--gamma", "--spec-draft-n-max"},
                 kPlan,
                 "COUNT",
                 "tokens that are proposed before the model verifies them, 1 to 63",
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
