#include "launch/residency.h"

#include <algorithm>
#include <array>

#include "runtime/cpu/memory.h"

namespace trireme {
namespace {

/// What a card needs beside what is asked of it: kernels that are loaded when they first run, graphs, granules.
constexpr size_t kCardReserve = size_t{256} << 20;

/// What this rank may use. On a CPU device and host are one memory.
Machine own_machine(const Options& o, const Device& device) {
    const bool cpu = device.backend() != "cuda";
    const size_t free = device.memory_free(), usable = cpu ? free : free - std::min(free, kCardReserve);
    return {.device_memory = o.device_memory > 0 ? static_cast<size_t>(o.device_memory) : usable,
            .host_memory = o.host_memory > 0 ? static_cast<size_t>(o.host_memory) : device.host_memory_free(),
            .shared = cpu && o.host_memory == 0};
}

/// The least that any rank has: the plan is one for all.
Machine least_machine(const Machine& mine, const Crew& crew) {
    Machine least = mine;
    for (const auto& [device, host] : crew.comm().gather_values(std::array{mine.device_memory, mine.host_memory})) {
        least.device_memory = std::min(least.device_memory, device);
        least.host_memory = std::min(least.host_memory, host);
    }
    return least;
}

std::string line_of(const PlanInput& in, const Plan& p) {
    if (p.streamed_layers == 0) {
        return fmt::format("KV of all {} layers on chip, {:.1f} MiB a rank", p.on_chip_layers, mib(p.kv_bytes));
    }
    return fmt::format(
        "KV of {} of {} layers on chip, {:.1f} MiB a rank; {} streamed from {:.1f} MiB of host memory through {} slots "
        "of {:.1f} MiB",
        p.on_chip_layers, in.kv.owner_layers, mib(p.kv_bytes), p.streamed_layers, mib(p.host_kv_bytes), in.ring,
        mib(p.ring_bytes / static_cast<size_t>(in.ring)));
}

}  // namespace

void refuse_plan(const PlanInput& in, const Plan& p, const Machine& m, int64_t context, int64_t largest,
                 const Options& o) {
    const bool device = p.device_bytes() > m.device_memory;
    const size_t host = p.host_total() + (m.shared ? p.device_bytes() : 0);
    fail(Exit::kOs, "{} memory: {:.1f} MiB wanted for {} tokens with {} of {} layers' KV on chip, {:.1f} MiB {}; {}",
         device ? "device" : "host", mib(device ? p.device_bytes() : host), context, p.on_chip_layers,
         in.kv.owner_layers, mib(device ? m.device_memory : m.host_memory),
         (device ? o.device_memory : o.host_memory) > 0 ? "allowed" : "available",
         largest > 0 ? fmt::format("{} tokens would fit (-c, -n)", largest)
                     : "not even 256 tokens would fit: fewer layers on chip, more ranks or more memory");
}

ResidencyChoice choose_residency(const Options& o, const LlamaConfig& config, const LlamaOptions& options,
                                 const Device& device, int threads, const Crew& crew) {
    ResidencyChoice choice;
    choice.machine = least_machine(own_machine(o, device), crew);
    const Machine& m = choice.machine;
    crew.phase([&] {
        const Shard shard = largest_shard(config, crew.comm().size());
        const auto input_for = [&](int64_t context) {
            LlamaOptions with = options;
            with.context = context;
            return plan_input(config, shard, with, device.backend(), threads, o.kv_on_chip);
        };
        choice.input = input_for(options.context);
        choice.plan = make_plan(choice.input, m);
        choice.table = plan_lines(choice.input, choice.plan, m);
        choice.line = line_of(choice.input, choice.plan);
        if (choice.plan.fits(m)) return;
        refuse_plan(choice.input, choice.plan, m, options.context, most_tokens(input_for, m, options.context), o);
    });
    return choice;
}

}  // namespace trireme
