#include "launch/run/sharing.h"

#include <fmt/format.h>

namespace trireme {
namespace {

std::string how_often(const LlamaConfig& config, const Passes& p) {
    switch (p.how) {
        case Passes::How::kFixed:
            return fmt::format("{} times", p.n);
        case Passes::How::kExact:
            return "until nothing changes";
        case Passes::How::kAuto:
            return fmt::format("until keys and values change by {} at most", p.tolerance);
        default:
            return fmt::format("{} times", config.passes);
    }
}

}  // namespace

std::string describe_sharing(const LlamaConfig& config, const Passes& passes) {
    const LayerMap& map = config.layer_map;
    if (map.is_identity() && !config.no_diagonal) {
        int64_t windowed = 0;
        for (LayerIndex l; l.i < map.layers(); ++l) windowed += map.windowed(l) ? 1 : 0;
        if (windowed == 0) return "";
        return fmt::format("{} of {} layers see the last {} tokens only", windowed, map.layers(),
                           config.sliding_window);
    }
    std::string text =
        fmt::format("layers read {}: {} of {} have keys and values", map.text(), map.owners(), map.layers());
    if (config.no_diagonal) text += "; no token sees itself";
    std::string iterated;
    for (const LayerBlock& b : map.blocks()) {
        if (b.iterated) iterated += fmt::format("{}{}-{}", iterated.empty() ? "" : ", ", b.first, b.end.i - 1);
    }
    if (!iterated.empty()) text += fmt::format("; prompts pass layers {} {}", iterated, how_often(config, passes));
    return text;
}

}  // namespace trireme
