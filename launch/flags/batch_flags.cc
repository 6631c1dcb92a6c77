// The flags of batch: requests and results.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

}  // namespace

FlagGroup batch_flags() {
    return {"Many texts",
            {
                {"input",
                 {"--input", "--input-path"},
                 kBatch,
                 "FILE",
                 "requests, one JSON object per line: prompt (or article) or input_ids. max_tokens, temperature, "
                 "top_p, top_k, min_p, stop and seed override the flags. -: stdin",
                 [](O& o, const S& s) {
                     o.input = s.word();
                     if (o.prompt_from == PromptFrom::kData) o.prompt_from = PromptFrom::kNowhere;
                 },
                 [](const O& o) { return o.input; },
                 "required, or --data"},
                {"output-path",
                 {"-o", "--output-path"},
                 kBatch | kConvert | kReport | kScore | kEvaluate,
                 "FILE",
                 "convert: the new folder or .h5 file. batch: one line per request, in order; an existing file "
                 "of these requests is continued (--force: start over). evaluate: the folder of results. score: ids "
                 "and log probabilities as JSON "
                 "(-: stdout), or one line per pair",
                 [](O& o, const S& s) { o.output_path = s.word(); },
                 [](const O& o) { return o.output_path; },
                 "required; score: none"},
                {"rouge",
                 {"--rouge"},
                 kBatch,
                 "KEY",
                 "compare each text with its request's field KEY (summary_gt): ROUGE-1, -2 and -L, means at the "
                 "end",
                 [](O& o, const S& s) { o.rouge = s.word(); },
                 [](const O& o) { return o.rouge; },
                 "not compared"},
            }};
}

}  // namespace trireme
