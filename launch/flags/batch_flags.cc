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
             [](O& o, const S& s) { o.input = s.word(); },
             [](const O& o) { return o.input; },
             "required"},
            {"output-path",
             {"-o", "--output-path"},
             kBatch | kConvert | kReport,
             "FILE",
             "convert: the new folder, or, with .h5 at its end, the new file; report: the folder of the pages; batch: "
             "gets a line for each request, in their order; where it has lines of "
             "these requests, the run goes on "
             "behind them (--force: begins anew)",
             [](O& o, const S& s) { o.output_path = s.word(); },
             [](const O& o) { return o.output_path; },
             "required"},
            {"limit",
             {"--limit", "--sample_num"},
             kBatch,
             "COUNT",
             "only the first COUNT requests; 0: all",
             [](O& o, const S& s) { o.limit = s.integer(0, int64_t{1} << 40); },
             [](const O& o) { return shown(o.limit); }},
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
