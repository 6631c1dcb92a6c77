#include "offload/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

/// The streamed layers that a forward reads.
struct StreamedReads {
    std::vector<StreamedIndex> numbers;  // [owners]
    std::vector<StreamedIndex> reads;    // by attention
    bool ring_holds = false;             // TileRing::holds_a_layer
};
StreamedReads streamed_reads_of(const PlanInput& in, const std::vector<bool>& on_chip) {
    StreamedReads s;
    s.numbers = number_streamed(in.kv.owner_layers, on_chip);
    s.reads = streamed_reads(in.reads, s.numbers);
    s.ring_holds = TileRing::holds_a_layer(stream_shape(in.kv, /*layers=*/1, in.span_bytes, in.coded), in.ring);
    return s;
}
int64_t useful_frames_of(const PlanInput& in, int64_t on_chip) {
    if (on_chip == in.kv.owner_layers) return 0;
    const StreamedReads s = streamed_reads_of(in, placed(in.reads, in.kv.owner_layers, on_chip));
    return useful_frames(s.reads, s.ring_holds);
}
int64_t all_crossings(const Plan& p) {
    return std::accumulate(p.crossings.begin(), p.crossings.end(), int64_t{0});
}

}  // namespace

std::vector<bool> interleaved(int64_t owners, int64_t n) {
    check(n >= 0 && n <= owners, "kv: {} of {} layers on chip", n, owners);
    std::vector<bool> on_chip;
    for (int64_t l = 0; l < owners; ++l) on_chip.push_back((l + 1) * n / owners > l * n / owners);
    return on_chip;
}

std::vector<bool> placed(const std::vector<OwnerIndex>& reads, int64_t owners, int64_t n) {
    std::vector<int64_t> readers(static_cast<size_t>(owners), 0);
    for (const OwnerIndex owner : reads) ++readers[owner.at()];
    std::vector<bool> on_chip(static_cast<size_t>(owners), false);
    for (int64_t many = static_cast<int64_t>(reads.size()); many >= 0 && n > 0; --many) {
        const int64_t alike = std::ranges::count(readers, many), here = std::min(alike, n);
        const std::vector<bool> chosen = interleaved(alike, here);
        auto next = chosen.begin();
        for (size_t owner = 0; owner < on_chip.size(); ++owner) {
            if (readers[owner] == many) on_chip[owner] = *next++;
        }
        n -= here;
    }
    return on_chip;
}

Plan plan_with(const PlanInput& in, int64_t on_chip, bool hidden_on_host, int64_t frames) {
    const int64_t streamed = in.kv.owner_layers - on_chip;
    Plan p;
    p.on_chip = placed(in.reads, in.kv.owner_layers, on_chip);
    p.on_chip_layers = on_chip;
    p.streamed_layers = streamed;
    p.weight_bytes = in.weight_bytes;
    p.work = in.work;
    p.prefill_work_bytes = in.prefill_work_bytes;
    p.kv.device = static_cast<size_t>(on_chip) * in.kv.layer_bytes();
    const MemoryBytes sets = in.kv.sequences * in.retrieval.memory(in.kv);
    p.summary_bytes = static_cast<size_t>(in.kv.sequences) * in.retrieval.summary_bytes(in.kv);
    p.retrieved = sets - MemoryBytes{.device = p.summary_bytes};
    p.proposing = in.proposing;
    if (in.heavy) p.heavy = *in.heavy;
    if (in.evicting) p.kv = *in.evicting;
    if (in.evicting || in.heavy || in.by_layers || streamed > 0) {  // a prefill goes layer by layer
        p.hidden = in.hidden_on_device;
        p.work += in.prompt_batches;
        p.prefill_work_bytes += in.prompt_batches.device;
    }
    if (in.evicting || streamed == 0) return p;
    const StreamShape shape = stream_shape(in.kv, streamed, in.span_bytes, in.coded);
    p.span_tiles = TileRing::span_tiles(shape, in.ring);
    p.ring_bytes = TileRing::bytes(shape, in.ring);
    p.frames = frames;
    p.frame_bytes = TileRing::frame_bytes(shape, frames);
    p.tail_bytes = TailTiles::bytes(shape);
    p.kv.host = static_cast<size_t>(streamed * shape.all_tiles()) * shape.stored_bytes();
    if (in.coded) p.worst_host_bytes = static_cast<size_t>(streamed) * in.kv.layer_bytes();
    p.hidden_on_host = hidden_on_host;
    if (hidden_on_host) p.hidden = in.hidden_on_host;
    p.work.device += TileRing::table_bytes(shape, in.ring, frames) + TailTiles::table_bytes(shape) +
                     PrefillWindow::table_bytes(shape) + Transport::codec_bytes(shape);
    const StreamedReads s = streamed_reads_of(in, p.on_chip);
    p.runs = read_runs(s.reads, frames, s.ring_holds);
    const std::vector<int64_t> times = crossings(p.runs, streamed, s.ring_holds);
    p.crossings.assign(p.on_chip.size(), 0);
    for (size_t owner = 0; owner < p.on_chip.size(); ++owner) {
        if (!p.on_chip[owner]) p.crossings[owner] = times[s.numbers[owner].at()];
    }
    return p;
}

std::vector<ReadRun> runs_of(const PlanInput& in, const Plan& plan) {
    if (plan.streamed_layers == 0) return {};
    const StreamedReads s = streamed_reads_of(in, plan.on_chip);
    return read_runs(s.reads, plan.frames, s.ring_holds);
}

Plan make_plan(const PlanInput& in, const Machine& machine) {
    const int64_t owners = in.kv.owner_layers;
    if (in.on_chip == PlanInput::kAll || in.evicting) return plan_with(in, owners);
    if (in.on_chip >= 0) {
        require(in.on_chip <= owners, Exit::kConfig, "{} layers on chip: the model has {} with keys and values",
                in.on_chip, owners);
    }
    const int64_t least = std::max(int64_t{0}, in.on_chip), most = in.on_chip >= 0 ? in.on_chip : owners;
    Plan closest, best;
    size_t lacking = SIZE_MAX;
    int64_t crossing = INT64_MAX;
    // Tries n layers on chip with the most frames that fit.
    const auto try_with = [&](int64_t n) {
        for (int64_t frames = useful_frames_of(in, n); frames >= 0; --frames) {
            for (const bool hidden_on_host : {false, true}) {
                Plan p = plan_with(in, n, hidden_on_host, frames);
                const size_t lacks = p.shortage(machine).total();
                if (lacks == 0 && all_crossings(p) < crossing) {
                    crossing = all_crossings(p);
                    best = std::move(p);
                } else if (lacks > 0 && lacks < lacking) {
                    lacking = lacks;
                    closest = std::move(p);
                }
                if (lacks == 0) return;
            }
        }
    };
    // Every streamed layer crosses the link at least once: from some point on, fewer layers on chip gain nothing.
    for (int64_t n = most; n >= least && owners - n < crossing; --n) try_with(n);
    return crossing < INT64_MAX ? best : closest;
}

size_t least_memory(const PlanInput& in, const Machine& machine, size_t Machine::*which) {
    Machine m = machine;
    const auto fits = [&](size_t bytes) {
        m.*which = bytes;
        return make_plan(in, m).fits(m);
    };
    const size_t there = machine.*which;
    if (fits(there) || !fits(SIZE_MAX)) return 0;
    const Plan with_plenty = make_plan(in, m);
    size_t little = there, enough = std::max(with_plenty.total().device, with_plenty.total().host);
    while (enough - little > 1) {
        const size_t middle = little + (enough - little) / 2;
        (fits(middle) ? enough : little) = middle;
    }
    return enough;
}

int64_t most_tokens(const std::function<PlanInput(int64_t tokens)>& input_for, const Machine& machine,
                    int64_t at_most) {
    const auto of_tiles = [&](int64_t tiles) { return input_for(tiles * kTileTokens); };
    return most_that_fit(of_tiles, machine, at_most / kTileTokens) * kTileTokens;
}

int64_t most_that_fit(const std::function<PlanInput(int64_t n)>& input_for, const Machine& machine, int64_t at_most) {
    int64_t good = 0, bad = at_most + 1;
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        (make_plan(input_for(middle), machine).fits(machine) ? good : bad) = middle;
    }
    return good;
}

}  // namespace trireme
