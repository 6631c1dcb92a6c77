#include "launch/run/plan_lines.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace trireme {

LayerIndex layer_of(const PlanInput& in, OwnerIndex owner) {
    return in.owners.empty() ? LayerIndex(owner.i) : in.owners[owner.at()];
}

std::vector<std::string> reader_lines(const PlanInput& in, const Plan& p) {
    const std::vector<StreamedIndex> numbers = number_streamed(in.kv.owner_layers, p.on_chip);
    std::string held, often;
    for (OwnerIndex owner; owner.i < in.kv.owner_layers && p.streamed_layers > 0; ++owner) {
        const auto layer = layer_of(in, owner);
        const bool in_frame =
            std::ranges::any_of(p.runs, [&](const ReadRun& r) { return r.held() && r.layer == numbers[owner.at()]; });
        const int64_t times = p.crossings[owner.at()];
        if (in_frame) held += fmt::format("{}{}", held.empty() ? "" : ", ", layer);
        if (times > 1) often += fmt::format("{}{} ({} times)", often.empty() ? "" : ", ", layer, times);
    }
    std::vector<std::string> lines;
    if (!held.empty()) lines.push_back("held from first to last reader: layers " + held);
    if (!often.empty()) lines.push_back("crossing the link more than once a forward: layers " + often);
    return lines;
}

std::vector<std::string> plan_lines(const PlanInput& in, const Plan& p, const Machine& m) {
    const MemoryBytes all = p.total();
    std::vector<std::string> lines;
    const auto line = [&](std::string_view what, size_t bytes, const std::string& note) {
        if (bytes > 0) lines.push_back(fmt::format("  {:<28}{:>9.3f} GiB  {}", what, gib(bytes), note));
    };
    lines.push_back(
        fmt::format("device: {:.3f} of {:.3f} GiB; peak of a prefill {:.3f}, of decoding {:.3f}: memory of "
                    "the prefill is not freed",
                    gib(all.device), gib(m.device_memory), gib(all.device), gib(p.decode_bytes())));
    line("weights", p.weight_bytes, "");
    line("activations, scratch", p.work.device, "");
    line("KV on chip", p.kv.device, fmt::format("{} of {} layers", p.on_chip_layers, in.kv.owner_layers));
    line("ring", p.ring_bytes, fmt::format("{} slots of {} tiles; the window of a prefill", in.ring, p.span_tiles));
    line("frames", p.frame_bytes, fmt::format("room for {} layers that several others read", p.frames));
    line("newest tiles", p.tail_bytes, fmt::format("{} of each streamed layer", TailTiles::kPlaces));
    line("prompt's hidden states", p.hidden.device, p.hidden_on_host ? "batches of them; the rest is on the host" : "");
    line("retrieved", p.retrieved.device, fmt::format("{} slots of each layer", in.retrieval.slots(in.kv.context)));
    line("chunk summaries", p.summary_bytes, fmt::format("one for {} tokens", in.retrieval.chunk));
    line("heavy hitters", p.heavy.device, "tokens that heads propose by, and their scores");
    line("levels that propose", p.proposing.device, "weights, windows, scratch, distributions");
    lines.push_back(m.host_memory == SIZE_MAX
                        ? fmt::format("host: {:.3f} GiB, pinned; no limit (--host-memory)", gib(all.host))
                        : fmt::format("host: {:.3f} of {:.3f} GiB, pinned", gib(all.host), gib(m.host_memory)));
    line("KV streamed", p.kv.host,
         fmt::format(
             "{} layers{}", p.streamed_layers,
             in.coded ? fmt::format(", coded; {:.3f} GiB more if no tile can be coded", gib(p.worst_host_bytes)) : ""));
    line("prompt's hidden states", p.hidden.host, "");
    line("staging", p.work.host, "");
    line("levels that propose", p.proposing.host, "staging");
    line("retrieved", p.retrieved.host, in.retrieval.comes_back ? "selections; the prompt's is kept" : "selections");
    for (std::string& more : reader_lines(in, p)) lines.push_back(std::move(more));
    if (m.together < SIZE_MAX) {
        lines.push_back(
            fmt::format("both: {:.3f} of {:.3f} GiB: one memory", gib(all.device + all.host), gib(m.together)));
    }
    return lines;
}

}  // namespace trireme
