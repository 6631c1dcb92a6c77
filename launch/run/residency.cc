#include "launch/run/residency.h"

#include <algorithm>
#include <array>

#include "launch/run/eviction.h"
#include "launch/run/plan_lines.h"
#include "runtime/cpu/memory.h"

namespace trireme {
namespace {

/// Bytes of GPU memory that CUDA uses in addition to our allocations: kernels loaded at their first launch, graphs,
/// rounding up to its granularity.
constexpr size_t kCardReserve = size_t{256} << 20;

/// The minimum over ranks, since all ranks use the same plan.
Machine least_machine(const Machine& mine, const RankGroup& rank_group) {
    Machine least = mine;
    for (const auto& [device, host, together] :
         rank_group.comm().gather_values(std::array{mine.device_memory, mine.host_memory, mine.together})) {
        least.device_memory = std::min(least.device_memory, device);
        least.host_memory = std::min(least.host_memory, host);
        least.together = std::min(least.together, together);
    }
    return least;
}

/// Scratch is per thread, and ranks may differ by a core: the plan, equal on all ranks, assumes the most threads.
int most_threads(int mine, const RankGroup& rank_group) {
    return std::ranges::max(rank_group.comm().gather_values(mine));
}

/// The plan's input for a run with these options of the model's level; `on_chip`: as PlanInput::on_chip. `scratches`:
/// most_threads().
PlanInput input_of(const LevelToPlace& level, const LevelOptions& options, int64_t on_chip, int ranks, int scratches) {
    const std::string_view backend = level.device.backend();
    const Shard shard = largest_shard(level.config, ranks);
    PlanInput in = plan_input(level.config, shard, level.weights, options, backend, scratches, on_chip);
    plan_evicting(in, level.config, shard, level.eviction, backend, scratches);
    if (level.proposing == nullptr) return in;
    in.proposing = level.proposing->memory(ranks, backend, scratches, options.sequences);
    in.retrieval = level.proposing->retrieval(ranks);
    plan_proposing(in, level.config, shard, level.proposing->heavy(), backend, scratches);
    return in;
}

std::string line_of(const PlanInput& in, const Plan& p) {
    if (in.evicting) {
        return fmt::format("KV of all {} layers on the device, {:.1f} MiB a rank with what a prompt needs",
                           p.on_chip_layers, mib(p.kv.device));
    }
    if (p.streamed_layers == 0) {
        return fmt::format("KV of all {} layers on chip, {:.1f} MiB a rank", p.on_chip_layers, mib(p.kv.device));
    }
    return fmt::format(
        "KV of {} of {} layers on chip, {:.1f} MiB a rank; {} streamed from {:.1f} MiB of host memory through {} slots "
        "of {:.1f} MiB",
        p.on_chip_layers, in.kv.owner_layers, mib(p.kv.device), p.streamed_layers, mib(p.kv.host), in.ring,
        mib(p.ring_bytes / static_cast<size_t>(in.ring)));
}

}  // namespace

// On a CPU, device and host share one memory.
Machine own_machine(const Options& o, const Device& device) {
    const bool one_memory = device.backend() != "cuda";
    const size_t free = device.memory_free() + device.used(Space::kDevice);
    const size_t usable = one_memory ? free : free - std::min(free, kCardReserve);
    return {.device_memory = o.device_memory > 0 ? static_cast<size_t>(o.device_memory) : usable,
            .host_memory = o.host_memory > 0 ? static_cast<size_t>(o.host_memory) : device.host_memory_free(),
            .together = one_memory ? free : SIZE_MAX};
}

std::string as_size(size_t bytes) {
    constexpr size_t kMiB = size_t{1} << 20;
    return fmt::format("{}M", (bytes + kMiB - 1) / kMiB);
}

void refuse_plan(const PlanInput& in, const Machine& m, const Machine& there, int64_t context, int64_t largest,
                 const Options& o) {
    struct Bound {
        const char* what;
        size_t wanted, there, lacking;
        bool by_flag;
    };
    const Plan p = make_plan(in, m);
    const MemoryBytes all = p.total();
    const Shortage lacking = p.shortage(m);
    const std::array bounds = {
        Bound{"device", all.device, m.device_memory, lacking.device, o.device_memory > 0},
        Bound{"host", all.host, m.host_memory, lacking.host, o.host_memory > 0},
        Bound{"device and host (one)", all.device + all.host, m.together, lacking.together, false}};
    const Bound& b = *std::ranges::max_element(bounds, {}, &Bound::lacking);

    // Available memory is limited by the machine, or by a limit of this process (ulimit).
    const HostMemory host = host_memory();
    const bool by_process = !b.by_flag && host.mappable < host.available;
    std::string remedy = largest > 0 ? fmt::format("{} tokens would fit (-c, -n)", largest)
                                     : "not even 256 tokens would fit: fewer layers on chip, more ranks or more memory";
    const auto allow = [&](const char* flag, int64_t given, size_t Machine::*which) {
        const size_t enough = given > 0 ? least_memory(in, m, which) : 0;
        if (enough > 0 && enough <= there.*which)
            remedy += fmt::format("; all would with {} {}", flag, as_size(enough));
    };
    allow("--device-memory", o.device_memory, &Machine::device_memory);
    allow("--host-memory", o.host_memory, &Machine::host_memory);
    fail(Exit::kOs,
         "{} memory: {:.1f} MiB required for {} tokens with {} of {} layers' KV on chip, {:.1f} MiB {}, {:.1f} MiB too "
         "little; {}; 'trireme plan' shows what takes it",
         b.what, mib(b.wanted), context, p.on_chip_layers, in.kv.owner_layers, mib(b.there),
         b.by_flag    ? "allowed"
         : by_process ? "available (ulimit -v or -d)"
                      : "available",
         mib(b.lacking), remedy);
}

void check_link(const Options& o) {
    require(o.link.us == 0 || o.link.gbps > 0, Exit::kConfig, "--link-us {}: of no link; give --link-gbps, too",
            o.link.us);
}

ResidencyChoice choose_residency(const LevelToPlace& level, const RankGroup& rank_group) {
    const Options& o = level.flags;
    const Device& device = level.device;
    ResidencyChoice choice;
    Options unlimited = o;
    unlimited.device_memory = unlimited.host_memory = 0;
    const Machine there = least_machine(own_machine(unlimited, device), rank_group);
    choice.machine = least_machine(own_machine(o, device), rank_group);
    const Machine& m = choice.machine;
    const int scratches = most_threads(level.threads, rank_group), ranks = rank_group.comm().size();
    rank_group.phase([&] {
        check_link(o);
        require(o.link.gbps == 0 || device.backend() != "cuda", Exit::kConfig,
                "--link-gbps: {} has a link of its own; only a CPU emulates one (plan takes it for any machine)",
                device.name());
        const auto input_for = [&](int64_t context) {
            LevelOptions with = level.options;
            with.context = context;
            with.common = std::min(with.common, common_tokens(context, context));
            return input_of(level, with, o.kv_on_chip, ranks, scratches);
        };
        choice.input = input_for(level.options.context);
        choice.plan = make_plan(choice.input, m);
        choice.table = plan_lines(choice.input, choice.plan, m);
        choice.line = line_of(choice.input, choice.plan);
        if (choice.plan.fits(m)) return;
        const int64_t context = level.options.context;
        refuse_plan(choice.input, m, there, context, most_tokens(input_for, m, context), o);
    });
    return choice;
}

int64_t most_texts(const LevelToPlace& level, const RankGroup& rank_group, int64_t at_most) {
    const Machine m = least_machine(own_machine(level.flags, level.device), rank_group);
    const int scratches = most_threads(level.threads, rank_group), ranks = rank_group.comm().size();
    const auto with_texts = [&](int64_t texts) {
        LevelOptions with = level.options;
        with.sequences = texts;
        return input_of(level, with, layers_beside_texts(level.flags.kv_on_chip), ranks, scratches);
    };
    return most_that_fit(with_texts, m, at_most);
}

}  // namespace trireme
