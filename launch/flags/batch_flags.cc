// The flags of batch: where requests come from, and what becomes of them.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

}  // namespace

FlagGroup batch_flags() {
    return {
        "Many texts",
        {
            {"input",
             {"--input", "--input-path"},
             kBatch,
             "FILE",
             "the requests, a JSON object a line: prompt (or article) has the text, or input_ids its ids; "
             "max_tokens, temperature, top_p, top_k, stop and seed stand above the flags; - is stdin",
             [](O& o, const S& s) {
                 o.input = s.word();
                 if (o.prompt_from == PromptFrom::kData) o.prompt_from = PromptFrom::kNowhere;
             },
             [](const O& o) { return o.input; },
             "required, or --data"},
            {"output-path",
             {"-o", "--output-path"},
             kBatch | kConvert | kReport | kScore,
             "FILE",
             "convert: the new folder, or with --tokens the new HDF5 file; batch: gets a line for each request, in "
             "their order; where it has lines of "
             "these requests, the run continues after them (--force: starts over); score: a text's token ids and log "
             "probabilities as JSON (- is stdout), or the pairs' lines, and stdout gets the summary",
             [](O& o, const S& s) { o.output_path = s.word(); },
             [](const O& o) { return o.output_path; },
             "required; score: none"},
            {"rouge",
             {"--rouge"},
             kBatch,
             "KEY",
             "compare each text with what its request has under KEY (summary_gt): ROUGE-1, -2 and -L, the means at "
             "the end",
             [](O& o, const S& s) { o.rouge = s.word(); },
             [](const O& o) { return o.rouge; },
             "not compared"},
        }};
}

}  // namespace trireme
