#include "launch/run/side_by_side.h"

#include <algorithm>
#include <string>

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {

void require_side_by_side(const Options& o) {
    const std::string shown = find_key("parallel")->show(o);
    const auto alone = [&](bool other, const std::string& flag) {
        require(!o.side_by_side() || !other, Exit::kUsage, "--parallel {} with {}: want one of them", shown, flag);
    };
    alone(o.prompt_from == PromptFrom::kSession, "--session");
    alone(!o.save_kv.empty(), "--save-kv");
    alone(!o.load_kv.empty(), "--load-kv");
    require(o.parallel.size() == 1, Exit::kConfig,
            "--parallel {}: a run decodes one number of texts side by side; want one, or a bench of all", shown);
}

int64_t texts_side_by_side(const Start& start, const RankGroup& rank_group, const Engine& engine,
                           const SideBySideAsked& asked) {
    const int64_t wanted = start.call.options.parallel.front();
    if (wanted != Options::kMostParallel) return std::min(wanted, asked.texts);
    return std::max<int64_t>(
        1, engine.most_side_by_side(start, rank_group, asked.context, asked.prompt_tokens, asked.of_one_prompt,
                                    std::min(asked.texts, Options::kParallelLimit)));
}

}  // namespace trireme
