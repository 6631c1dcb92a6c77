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

/// The plan's input for a run with these options of the model's level; `on_chip`: as PlanInput::on_chip.
PlanInput input_of(int64_t on_chip, const LlamaConfig& config, const WeightFormat& weights, const LevelOptions& options,
                   const Device& device, int scratches, const RankGroup& rank_group, const EvictionShape& eviction,
                   const SpecLevels* proposing) {
    const int ranks = rank_group.comm().size();
    const Shard shard = largest_shard(config, ranks);
    PlanInput in = plan_input(config, shard, weights, options, device.backend(), scratches, on_chip);
    plan_evicting(in, config, shard, eviction, device.backend(), scratches);
    if (proposing == nullptr) return in;
    in.proposing = proposing->memory(ranks, device.backend(), scratches, options.sequences);
    in.retrieval = proposing->retrieval(ranks);
    plan_proposing(in, config, shard, proposing->heavy(), device.backend(), scratches);
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

ResidencyChoice choose_residency(const Options& o, const LlamaConfig& config, const WeightFormat& weights,
                                 const LevelOptions& options, const Device& device, int threads,
                                 const RankGroup& rank_group, const EvictionShape& eviction,
                                 const SpecLevels* proposing) {
    ResidencyChoice choice;
    Options unlimited = o;
    unlimited.device_memory = unlimited.host_memory = 0;
    const Machine there = least_machine(own_machine(unlimited, device), rank_group);
    choice.machine = least_machine(own_machine(o, device), rank_group);
    const Machine& m = choice.machine;
    const int scratches = most_threads(threads, rank_group);
    rank_group.phase([&] {
        check_link(o);
        require(o.link.gbps == 0 || device.backend() != "cuda", Exit::kConfig,
                "--link-gbps: {} has a link of its own; only a CPU emulates one (plan takes it for any machine)",
                device.name());
        const auto input_for = [&](int64_t context) {
            LevelOptions with = options;
            with.context = context;
            with.common = std::min(with.common, common_tokens(context, context));
            return input_of(o.kv_on_chip, config, weights, with, device, scratches, rank_group, eviction, proposing);
        };
        choice.input = input_for(options.context);
        choice.plan = make_plan(choice.input, m);
        choice.table = plan_lines(choice.input, choice.plan, m);
        choice.line = line_of(choice.input, choice.plan);
        if (choice.plan.fits(m)) return;
        refuse_plan(choice.input, m, there, options.context, most_tokens(input_for, m, options.context), o);
    });
    return choice;
}

int64_t most_texts(const Options& o, const LlamaConfig& config, const WeightFormat& weights,
                   const LevelOptions& options, const Device& device, int threads, const RankGroup& rank_group,
                   int64_t at_most, const EvictionShape& eviction, const SpecLevels* proposing) {
    const Machine m = least_machine(own_machine(o, device), rank_group);
    const int scratches = most_threads(threads, rank_group);
    const auto with_texts = [&](int64_t texts) {
        LevelOptions with = options;
        with.sequences = texts;
        return input_of(layers_beside_texts(o.kv_on_chip), config, weights, with, device, scratches, rank_group,
                        eviction, proposing);
    };
    return most_that_fit(with_texts, m, at_most);
}

}  // namespace trireme
