#include "launch/run/run_device.h"

#include <algorithm>
#include <vector>

#include "dist/make_comm.h"
#include "launch/run/outcome.h"
#include "runtime/index.h"
#include "runtime/log.h"
#include "runtime/module.h"

namespace trireme {
namespace {

std::unique_ptr<Device> open(const Start& start, const std::string& name) {
    if (name.starts_with("cuda")) load_cuda_module();
    return open_device(name, {.threads = start.threads,
                              .local_rank = start.local_rank,
                              .local_ranks = start.local_ranks,
                              .host_memory = static_cast<size_t>(start.call.options.host_memory)});
}

/// Opens the device that --device names; errors name the flag.
std::unique_ptr<Device> open_named(const Start& start, const std::string& name) {
    std::unique_ptr<Device> device;
    const Outcome opened = attempt([&] { device = open(start, name); });
    const char* otherwise = name.starts_with("cuda") ? " (--device cpu needs none of it)" : "";
    require(opened.status == 0, static_cast<Exit>(opened.status), "--device {}: {}{}", name, opened.message, otherwise);
    return device;
}

}  // namespace

OpenedDevice open_run_device(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    OpenedDevice opened;
    if (o.device != "auto") {
        rank_group.phase([&] { opened.device = open_named(start, o.device); });
    } else {
        const Outcome tried = attempt([&] { opened.device = open(start, "cuda"); });
        const bool all = rank_group.comm().agree(static_cast<Exit>(tried.status)) == Exit::kOk;
        if (!all) rank_group.phase([&] { opened.device = open(start, "cpu"); });
        // If no node has NVIDIA's driver, no GPU is expected: the reason is logged at level debug only.
        const bool expected = std::ranges::max(rank_group.comm().gather_values<char>(has_nvidia_driver())) != 0;
        const std::string why = "no GPU: " + (tried.status ? tried.message : "another rank has none");
        opened.line = all ? "device " + opened.device->name() : expected ? "device cpu; " + why : "device cpu";
        if (!all && !expected) log::debug("{}", why);
    }
    // The launcher decides which GPU a rank sees. Ranks compare the devices that they opened, to count those per GPU.
    const std::vector<std::string> places = device_places(rank_group.comm(), *opened.device);
    opened.device->shared_by(static_cast<int>(std::ranges::count(places, places[index(rank_group.comm().rank())])));
    return opened;
}

}  // namespace trireme
