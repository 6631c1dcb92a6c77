#include "offload/plan.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

double ms(double bytes, double gbps) {
    return bytes / gbps * 1e-6;
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

Plan plan_with(const PlanInput& in, int64_t on_chip, bool hidden_on_host) {
    const int64_t streamed = in.kv.owner_layers - on_chip;
    Plan p;
    p.on_chip = placed(in.reads, in.kv.owner_layers, on_chip);
    p.on_chip_layers = on_chip;
    p.streamed_layers = streamed;
    p.weight_bytes = in.weight_bytes;
    p.work = in.work;
    p.prefill_work_bytes = in.prefill_work_bytes;
    p.kv.device = static_cast<size_t>(on_chip) * in.kv.layer_bytes();
    p.summary_bytes = in.retrieval.summary_bytes(in.kv);
    p.retrieved = in.retrieval.memory(in.kv) - MemoryBytes{.device = p.summary_bytes};
    p.proposing = in.proposing;
    if (in.heavy) p.heavy = *in.heavy;
    if (in.bounded) p.kv = *in.bounded;
    if (in.bounded || in.heavy || in.by_layers || streamed > 0) {  // a prompt goes layer by layer
        p.hidden = in.hidden_on_device;
        p.work += in.prompt_batches;
        p.prefill_work_bytes += in.prompt_batches.device;
    }
    if (in.bounded || streamed == 0) return p;
    const StreamShape shape = stream_shape(in.kv, streamed, in.span_bytes);
    p.span_tiles = TileRing::span_tiles(shape, in.ring);
    p.ring_bytes = TileRing::bytes(shape, in.ring);
    p.tail_bytes = Tails::bytes(shape);
    p.kv.host = static_cast<size_t>(streamed) * in.kv.layer_bytes();
    p.hidden_on_host = hidden_on_host;
    if (hidden_on_host) p.hidden = in.hidden_on_host;
    p.work.device +=
        TileRing::table_bytes(shape, in.ring) + Tails::table_bytes(shape) + PrefillWindow::table_bytes(shape);
    return p;
}

Plan make_plan(const PlanInput& in, const Machine& machine) {
    const int64_t owners = in.kv.owner_layers;
    if (in.on_chip == PlanInput::kAll || in.bounded) return plan_with(in, owners);
    if (in.on_chip >= 0) {
        require(in.on_chip <= owners, Exit::kConfig, "{} layers on chip: the model has {} with keys and values",
                in.on_chip, owners);
    }
    const int64_t least = std::max(int64_t{0}, in.on_chip), most = in.on_chip >= 0 ? in.on_chip : owners;
    Plan closest;
    size_t lacking = SIZE_MAX;
    for (int64_t n = most; n >= least; --n) {
        for (const bool hidden_on_host : {false, true}) {
            Plan p = plan_with(in, n, hidden_on_host);
            const size_t lacks = p.shortage(machine).total();
            if (lacks == 0) return p;
            if (lacks >= lacking) continue;
            lacking = lacks;
            closest = std::move(p);
        }
    }
    return closest;
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
    const auto fits = [&](int64_t tiles) {
        const PlanInput in = input_for(tiles * kTileTokens);
        return make_plan(in, machine).fits(machine);
    };
    int64_t good = 0, bad = at_most / kTileTokens + 1;  // in tiles
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        (fits(middle) ? good : bad) = middle;
    }
    return good * kTileTokens;
}

double step_bytes(const PlanInput& in, int64_t length) {
    const double tokens = static_cast<double>(length) / static_cast<double>(kTileTokens);
    return static_cast<double>(in.weight_bytes_per_step) +
           static_cast<double>(in.reads.size() * in.kv.layout.tile_bytes()) * tokens;
}

StepForecast forecast(const PlanInput& in, const Plan& plan, const Machine& m, int64_t length, double between_ms) {
    check(m.device_gbps > 0 && (plan.streamed_layers == 0 || m.link_gbps > 0),
          "plan: the machine's rates are not known");
    const auto tile = static_cast<double>(in.kv.layout.tile_bytes());
    const double token = tile / static_cast<double>(kTileTokens);
    const double weights_ms =
        ms(static_cast<double>(in.weight_bytes_per_step), m.device_gbps) / static_cast<double>(in.reads.size());
    const int64_t host_tiles = Tails::first_tile(length);

    StepForecast f;
    std::vector<double> free_at(static_cast<size_t>(in.ring), 0);  // ms, by slot: when it may be overwritten
    double link = 0, compute = 0, before = 0;
    size_t turn = 0;
    constexpr int kForwards = 3;  // the last one is in the steady state: it starts with the ring filled
    for (int forward = 0; forward < kForwards; ++forward) {
        f = {.step_ms = 0};
        before = compute;
        compute += between_ms;
        for (size_t i = 0; i < in.reads.size(); ++i) {
            const OwnerIndex owner = in.reads[i];
            const bool on_chip = plan.on_chip[owner.at()];
            // Layers that follow each other and read one owner read what the first of them has fetched.
            const bool fetched = i > 0 && in.reads[i - 1] == owner;
            const bool stays = i + 1 < in.reads.size() && in.reads[i + 1] == owner;
            if (fetched && !on_chip) turn -= static_cast<size_t>((host_tiles + plan.span_tiles - 1) / plan.span_tiles);
            const auto add = [&](double compute_ms) {
                compute += compute_ms;
                f.compute_ms += compute_ms;
            };
            for (int64_t first = 0; !on_chip && first < host_tiles; first += plan.span_tiles, ++turn) {
                const double bytes = static_cast<double>(std::min(plan.span_tiles, host_tiles - first)) * tile;
                double& slot = free_at[turn % free_at.size()];
                const double copy = m.link_us * 1e-3 + ms(bytes, m.link_gbps);
                if (!fetched) {
                    link = std::max(link, slot) + copy;
                    compute = std::max(compute, link);
                    f.h2d_bytes += static_cast<size_t>(bytes);
                    f.copy_ms += copy;
                }
                add(ms(bytes, m.device_gbps));
                if (!stays) slot = compute;
            }
            const double here =
                static_cast<double>(length) - (on_chip ? 0 : static_cast<double>(host_tiles * kTileTokens));
            add(weights_ms + ms(here * token, m.device_gbps));
        }
    }
    f.step_ms = compute - before;
    return f;
}

}  // namespace trireme
