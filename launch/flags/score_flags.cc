// The flags of score: texts longer than the context, and pairs.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

}  // namespace

FlagGroup score_flags() {
    return {"Scoring",
            {
                {"window",
                 {"--window"},
                 kScore,
                 "TOKENS",
                 "score a document in windows of this many tokens; 0: in one, or with --stride or --rule llama "
                 "the context. With --data: each document",
                 [](O& o, const S& s) { o.score.window = s.integer(0, kMostTokens); },
                 [](const O& o) { return shown(o.score.window); }},
                {"stride",
                 {"--stride"},
                 kScore,
                 "TOKENS",
                 "tokens from one window to the next, at most --window; 0: a whole window",
                 [](O& o, const S& s) { o.score.stride = s.integer(0, kMostTokens); },
                 [](const O& o) { return shown(o.score.stride); }},
                {"rule",
                 {"--rule"},
                 kScore,
                 "hf|llama",
                 "hf: Hugging Face's sliding windows, all tokens but the first; llama: llama-perplexity's "
                 "chunks, the second half of each",
                 [](O& o, const S& s) {
                     o.score.llama_rule = s.one_of({"hf", "llama"}) == 1;
                 },
                 [](const O& o) { return std::string(o.score.llama_rule ? "llama" : "hf"); }},
                {"strict",
                 {"--strict"},
                 kScore,
                 "",
                 "end at the first pair that cannot be scored; otherwise its line has the error",
                 [](O& o, const S& s) { o.score.strict = s.on(); },
                 [](const O& o) { return on_off(o.score.strict); }},
            }};
}

}  // namespace trireme
