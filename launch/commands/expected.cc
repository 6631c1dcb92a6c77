#include "launch/commands/expected.h"

#include <fmt/format.h>

namespace trireme {
namespace {

/// Figures of data sheets: memory rate; PCIe each way at 80 % of its raw rate, as pinned copies reach it.
struct Card {
    std::string_view name;
    double memory_gbps, link_gbps;
    bool peer_access;  // GPUs of different ranks can access each other's memory
};
constexpr Card kCards[] = {
    // The first match counts: a name that is part of another one comes after it.
    {"RTX 4090", 1008, 25, false}, {"RTX 4080", 717, 25, false}, {"RTX 6000 Ada", 960, 25, true},
    {"L40", 864, 25, true},        {"L4", 300, 25, true},        {"GH200", 4000, 350, true},
    {"H200", 4800, 52, true},      {"H100 NVL", 3900, 52, true}, {"H100 PCIe", 2039, 52, true},
    {"H100", 3350, 52, true},
};

const Card* card_of(std::string_view device) {
    for (const Card& c : kCards) {
        if (device.find(c.name) != std::string_view::npos) return &c;
    }
    return nullptr;
}

struct ReportRow {
    std::string_view name, unit, remedy;
};
ReportRow report_row(Measure what) {
    switch (what) {
        case Measure::kHostRead:
            return {"host memory, read", "GB/s",
                    "too slow to feed all links: are all memory channels filled? dmidecode -t memory; numactl -H"};
        case Measure::kDeviceCopy:
            return {"device memory, copy", "GB/s",
                    "another program uses the GPU, or its clocks are low: nvidia-smi -q -d CLOCK,PIDS"};
        case Measure::kH2d:
            return {
                "host to device, pinned", "GB/s",
                "the slot has fewer lanes or an older generation than the GPU: nvidia-smi -q -d PCIE under load, and "
                "the board's manual; or the rank runs on the other socket: numactl --cpunodebind"};
        case Measure::kD2h:
            return {"device to host, pinned", "GB/s",
                    "as for host to device; or an IOMMU translates every page: iommu=pt"};
        case Measure::kReduceLatency:
            return {"all_reduce of 16 KiB", "us",
                    "ranks share cores or sit on different sockets: --bind auto, mpirun --map-by; on GeForce GPUs "
                    "NCCL_P2P_DISABLE=1"};
        case Measure::kReduceBandwidth:
            return {"all_reduce of 64 MiB, bus", "GB/s", "the GPUs have different root ports: nvidia-smi topo -m"};
    }
    return {};
}

}  // namespace

std::optional<double> expected(Measure what, std::string_view device, int ranks) {
    const Card* card = card_of(device);
    if (card == nullptr) return std::nullopt;
    switch (what) {
        case Measure::kDeviceCopy:
            return 0.9 * card->memory_gbps;  // bytes read and written
        case Measure::kH2d:
        case Measure::kD2h:
            return card->link_gbps;
        case Measure::kReduceLatency:
            return card->peer_access ? 25 : 60;
        case Measure::kReduceBandwidth:
            return (card->peer_access ? 0.8 : 0.4) * card->link_gbps;
        case Measure::kHostRead:
            return card->link_gbps * ranks * 1.5;  // streaming in both directions, and the CPU's own work
    }
    return std::nullopt;
}

std::vector<std::string> doctor_lines(const std::vector<Measured>& all, std::string_view device, int ranks) {
    std::vector<std::string> lines;
    for (const Measured& m : all) {
        const ReportRow row = report_row(m.what);
        const std::optional<double> want = expected(m.what, device, ranks);
        lines.push_back(fmt::format("{:<26}{:>9.1f} {:<5}{}", row.name, m.value, row.unit,
                                    want ? fmt::format(" expected {:.1f}", *want) : ""));
        const bool slow =
            m.what == Measure::kReduceLatency ? want && m.value > 1.25 * *want : want && m.value < 0.8 * *want;
        if (slow) lines.push_back(fmt::format("    {}", row.remedy));
    }
    return lines;
}

}  // namespace trireme
