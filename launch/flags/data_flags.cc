// The flags of data sets: texts or token ids in files, and the selection among them.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr unsigned kChoosing = kBench | kScore | kBatch;
constexpr unsigned kReading = kChoosing | kEvaluate;
constexpr int64_t kMostTexts = int64_t{1} << 40;

}  // namespace

FlagGroup data_flags() {
    return {"Data sets",
            {
                {"data",
                 {"--data"},
                 kReading,
                 "PATH",
                 "a file of token ids (convert --tokens), in every command. bench, batch: documents: a file, a "
                 ".jsonl file (prompt, text or input_ids), or a folder. score: a .jsonl file of pairs with "
                 "context and continuation (-: stdin). With --dataset: the folder of data sets. evaluate: what the "
                 "suite reads",
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
                 "LIST",
                 "TriForce's data sets: gs (the first 20 documents of pg19), 128k (all of them), lwm, demo. Several, "
                 "such as gs,lwm: one table",
                 [](O& o, const S& s) {
                     o.datasets.clear();
                     for (const S& part : parts_of(s)) {
                         part.one_of({"gs", "128k", "lwm", "demo"});
                         o.datasets.push_back(part.text);
                     }
                     o.dataset = o.datasets.front();
                     o.prompt_from = PromptFrom::kData;
                 },
                 [](const O& o) { return joined(o.datasets); },
                 "none",
                 {"prompt", "file", "prompt-ids", "session"}},
                {"limit",
                 {"--limit", "--sample_num"},
                 kReading,
                 "COUNT",
                 "only the first COUNT documents, pairs or requests; 0: all. evaluate: of each task",
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
