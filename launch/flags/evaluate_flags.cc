// The flags of evaluate: suites, lengths, and the part of a cluster job.

#include <array>

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr std::array<std::string_view, 6> kSuites = {"needle", "ruler", "longbench", "xsum", "mtbench", "pg19"};

void set_shard(O& o, const S& s) {
    const size_t slash = s.text.find('/');
    require(slash != std::string::npos, Exit::kConfig, "{} '{}': want PART/PARTS, such as 0/4", s.where, s.text);
    o.evaluation.shards = S{s.where, s.text.substr(slash + 1)}.integer(1, 1 << 20);
    o.evaluation.shard = S{s.where, s.text.substr(0, slash)}.integer(0, o.evaluation.shards - 1);
}

}  // namespace

FlagGroup evaluate_flags() {
    return {"Evaluation",
            {
                {"suite",
                 {"--suite", "--suites"},
                 kEvaluate,
                 "LIST",
                 "needle, ruler, longbench, xsum, mtbench, pg19; --data has what they read",
                 [](O& o, const S& s) {
                     o.evaluation.suites.clear();
                     for (const S& part : parts_of(s)) {
                         o.evaluation.suites.emplace_back(kSuites[part.one_of(kSuites)]);
                     }
                 },
                 [](const O& o) { return joined(o.evaluation.suites); },
                 "required"},
                {"lengths",
                 {"--lengths"},
                 kEvaluate,
                 "LIST",
                 "tokens of prompt and answer together, such as 2K,8K; pg19: the window",
                 [](O& o, const S& s) {
                     o.evaluation.lengths.clear();
                     for (const S& part : parts_of(s)) o.evaluation.lengths.push_back(part.size(64, kMostTokens));
                 },
                 [](const O& o) {
                     std::vector<std::string> all;
                     for (const int64_t n : o.evaluation.lengths) all.push_back(shown(n));
                     return joined(all);
                 },
                 "xsum and mtbench: as the data are; others: required"},
                {"tasks",
                 {"--tasks"},
                 kEvaluate,
                 "LIST",
                 "tasks of the suites, such as niah_single_1,vt",
                 [](O& o, const S& s) {
                     o.evaluation.tasks.clear();
                     for (const S& part : parts_of(s)) o.evaluation.tasks.push_back(part.text);
                 },
                 [](const O& o) { return joined(o.evaluation.tasks); },
                 "all whose data are there"},
                {"shard",
                 {"--shard"},
                 kEvaluate,
                 "PART/PARTS",
                 "run this part of the cells (suite, length, mode): a task of an sbatch array. A run without the flag "
                 "writes the table",
                 set_shard,
                 [](const O& o) { return shown(o.evaluation.shard) + "/" + shown(o.evaluation.shards); }},
            }};
}

}  // namespace trireme
