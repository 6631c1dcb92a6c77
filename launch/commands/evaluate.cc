#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/flags/flags.h"
#include "launch/flags/modes.h"
#include "launch/run/python_script.h"

namespace trireme {
namespace {

using Ordered = nlohmann::ordered_json;

/// The environment variables with which `trireme pipe` and `generate` run with these options. Null: the default; the
/// variable is not set.
Ordered variables_of(const Options& o) {
    Ordered all = Ordered::object();
    for (const Flag& flag : flags()) {
        if (!flag.belongs_to(Command::kPipe) || flag.repeatable || flag.name == "config") continue;
        const std::string value = flag.show(o);
        // Of flags that exclude each other, such as one for both KV types and one for each, the first is enough.
        const bool excluded = std::ranges::any_of(flag.conflicts, [&](std::string_view other) {
            const std::string name = find_key(other)->env_name();
            return all.contains(name) && !all.at(name).is_null();
        });
        const bool set = value != flag.show(Options()) && !excluded;
        all[flag.env_name()] = set ? Ordered(value) : Ordered();
    }
    return all;
}

}  // namespace

void run_evaluate(const Options& o) {
    std::error_code error;
    Ordered task = {{"program", std::filesystem::read_symlink("/proc/self/exe", error).string()},
                    {"model", o.model},
                    {"suites", o.evaluation.suites},
                    {"lengths", o.evaluation.lengths},
                    {"tasks", o.evaluation.tasks},
                    {"data", o.data},
                    {"limit", o.choice.limit},
                    {"seed", o.seed.value_or(0)},
                    {"ranks", std::max<int64_t>(o.tensor_parallel, 1)},
                    {"chat", o.chat},
                    {"shard", o.evaluation.shard},
                    {"shards", o.evaluation.shards},
                    {"output", o.output_path},
                    {"force", o.force},
                    {"modes", Ordered::array()}};
    for (const Mode& mode : o.modes) {
        task["modes"].push_back({{"name", mode.name}, {"variables", variables_of(options_of(o, mode))}});
    }
    std::vector<std::string> words = python_command("python/trireme_evaluate/__main__.py");
    words.push_back(task.dump(-1, ' ', false, Ordered::error_handler_t::replace));
    become_script(std::move(words), "trireme evaluate");
}

}  // namespace trireme
