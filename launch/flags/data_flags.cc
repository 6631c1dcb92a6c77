// The flags of data sets: texts or token ids in files, and the selection among them.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr unsigned kChoosing = kBench | kScore | kBatch;
constexpr int64_t kMostTexts = int64_t{1} << 40;

}  // namespace

FlagGroup data_flags() {
    return {"Data sets",
            {
                {"data",
                 {"--data"},
                 kChoosing,
                 "PATH",
                 "a file of token ids (convert --tokens), in every command. bench, batch: documents: a file, a "
                 ".jsonl file (prompt, text or input_ids), or a folder. score: a .jsonl file of pairs with "
                 "context and continuation (-: stdin). With --dataset: the folder of data sets",
                 [](O& o, const S& s) {
                     o.data = s.word();
                     o.prompt_from = PromptFrom::kData;
                     o.input.clear();  // the later source wins
                 },
                 [](const O& o) { return o.data; },
                 "none; with --dataset: data",
                 {"prompt", "file", "prompt-ids", "session"}},
                {"dataset",
                 {"--dataset"},
                 kBench,
                 "gs|128k|lwm|demo",
                 "one of TriForce's data sets: pg19 (gs: the first 20 documents, 128k: all), lwm, demo",
                 [](O& o, const S& s) {
                     s.one_of({"gs", "128k", "lwm", "demo"});
                     o.dataset = s.text;
                     o.prompt_from = PromptFrom::kData;
                 },
                 [](const O& o) { return o.dataset; },
                 "none",
                 {"prompt", "file", "prompt-ids", "session"}},
                {"limit",
                 {"--limit", "--sample_num"},
                 kChoosing,
                 "COUNT",
                 "only the first COUNT documents, pairs or requests; 0: all",
                 [](O& o, const S& s) { o.choice.limit = s.integer(0, kMostTexts); },
                 [](const O& o) { return shown(o.choice.limit); }},
                {"skip",
                 {"--skip"},
                 kChoosing,
                 "COUNT",
                 "leave out the first COUNT, before --limit counts",
                 [](O& o, const S& s) { o.choice.skip = s.integer(0, kMostTexts); },
                 [](const O& o) { return shown(o.choice.skip); }},
                {"shuffle",
                 {"--shuffle"},
                 kChoosing,
                 "SEED",
                 "shuffle before --skip and --limit; a seed gives one order on every machine; 0 to 2^64 - 1",
                 [](O& o, const S& s) { o.choice.shuffle = s.any_unsigned(""); },
                 [](const O& o) { return o.choice.shuffle ? shown(*o.choice.shuffle) : ""; },
                 "the order of the files"},
                {"tokens",
                 {"--tokens"},
                 kConvert,
                 "PATH",
                 "documents, as --data of bench (-: stdin), to write as token ids to the HDF5 file -o",
                 [](O& o, const S& s) { o.tokens = s.word(); },
                 [](const O& o) { return o.tokens; },
                 "a model is converted"},
            }};
}

}  // namespace trireme
