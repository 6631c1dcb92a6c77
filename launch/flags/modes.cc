#include "launch/flags/modes.h"

#include "launch/flags/flag_groups.h"

namespace trireme {

Options options_of(const Options& o, const Mode& mode) {
    Options of = o;
    set_spec(of, {"--modes", mode.chain});
    of.kv_on_chip = mode.kv_on_chip.value_or(o.kv_on_chip);
    of.eviction.policy = mode.policy;
    if (mode.budget > 0) {
        of.eviction.budget = mode.budget;
        of.eviction.budget_share = 0;
    }
    // A mode whose heads cannot retain one set ignores the flag; others of the same bench use it.
    if (mode.policy != KvPolicy::kFull && !EvictionShape{.policy = mode.policy}.may_keep_one_set())
        of.eviction.one_set = {};
    return of;
}

std::vector<Options> chains_of(Command command, const Options& o) {
    if (command == Command::kGenerate || command == Command::kChat) return {o};
    if (command == Command::kBatch || command == Command::kPipe) {
        Options any = o;
        any.n_predict = -1;  // each request has its own
        return {any};
    }
    std::vector<Options> all;
    if (command == Command::kBench) {
        for (const Mode& mode : o.modes) all.push_back(options_of(o, mode));
    }
    return all;
}

int64_t fixed_gamma(const Options& o, size_t part) {
    return part + 1 == o.spec.parts.size() ? o.gamma : o.gamma_inner;
}

int64_t draft_distributions(const Options& o, Part part) {
    const auto found = std::ranges::find(o.spec.parts, part);
    if (found == o.spec.parts.end() || !row_of(part).has_level()) return 0;
    const auto i = static_cast<size_t>(found - o.spec.parts.begin());
    return o.spec.tree && i == 0 ? o.tree_size : Options::most_gamma(fixed_gamma(o, i));
}

}  // namespace trireme
