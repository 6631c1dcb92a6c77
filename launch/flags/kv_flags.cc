// The flags of KV placement and of the copies between host and device.

#include <array>

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr std::array<std::string_view, 3> kWires = {"raw", "coded", "auto"};  // in the order of KvWire
constexpr int64_t kMostMemory = int64_t{1} << 50;

std::string show_on_chip(const O& o) {
    if (o.kv_on_chip == PlanInput::kAuto) return "auto";
    return o.kv_on_chip == PlanInput::kAll ? "all" : shown(o.kv_on_chip);
}

}  // namespace

int64_t layers_on_chip(const S& s) {
    if (parse_integer(s.text)) return s.integer(0, 4096);
    return s.one_of({"auto", "all"}) == 0 ? PlanInput::kAuto : PlanInput::kAll;
}

FlagGroup kv_flags() {
    return {"Where keys and values live",
            {
                {"kv-on-chip",
                 {"--kv-on-chip", "--on-chip", "--on_chip"},
                 kShaped,
                 "LAYERS|auto|all",
                 "layers whose KV stays in device memory; the others are streamed from host memory. auto: as "
                 "many as fit",
                 [](O& o, const S& s) { o.kv_on_chip = layers_on_chip(s); },
                 show_on_chip},
                {"kv-ring",
                 {"--kv-ring"},
                 kShaped,
                 "SLOTS",
                 "slots of the ring that streamed tiles pass through, 2 to 8",
                 [](O& o, const S& s) { o.kv_ring = s.integer(2, 8); },
                 [](const O& o) { return shown(o.kv_ring); }},
                {"device-memory",
                 {"--device-memory"},
                 kShaped,
                 "BYTES",
                 "device memory that a rank may use; K, M, G are powers of 1024",
                 [](O& o, const S& s) { o.device_memory = s.size(1, kMostMemory); },
                 [](const O& o) { return o.device_memory == 0 ? "" : shown(o.device_memory); },
                 "what is free"},
                {"host-memory",
                 {"--host-memory"},
                 kShaped,
                 "BYTES",
                 "host memory that a rank may pin",
                 [](O& o, const S& s) { o.host_memory = s.size(1, kMostMemory); },
                 [](const O& o) { return o.host_memory == 0 ? "" : shown(o.host_memory); },
                 "what is free"},
                {"link-gbps",
                 {"--link-gbps"},
                 kShaped,
                 "GBPS",
                 "emulate a link of this bandwidth, GB/s each way (CPU only); plan: the machine's",
                 [](O& o, const S& s) { o.link.gbps = s.real(1e-3, 1e6); },
                 [](const O& o) { return o.link.gbps == 0 ? "" : shown(o.link.gbps); },
                 "memory's own speed"},
                {"link-us",
                 {"--link-us"},
                 kShaped,
                 "MICROSECONDS",
                 "latency of each copy over that link; requires --link-gbps",
                 [](O& o, const S& s) { o.link.us = s.real(0, 1e6); },
                 [](const O& o) { return shown(o.link.us); }},
                {"ranks",
                 {"--ranks"},
                 kPlan | kConvert,
                 "COUNT",
                 "plan: number of ranks. convert: ranks for which the .h5 file is laid out (any number can read "
                 "it)",
                 [](O& o, const S& s) { o.ranks = s.integer(1, 4096); },
                 [](const O& o) { return o.ranks == 0 ? "" : shown(o.ranks); },
                 "plan: as many as mpirun or srun started; else 1"},
                {"device-gbps",
                 {"--device-gbps"},
                 kPlan,
                 "GBPS",
                 "plan: device memory bandwidth in GB/s; with --link-gbps, plan also predicts times",
                 [](O& o, const S& s) { o.device_gbps = s.real_above(0, 1e6); },
                 [](const O& o) { return o.device_gbps == 0 ? "" : shown(o.device_gbps); },
                 "not known"},
                {"device-tflops",
                 {"--device-tflops"},
                 kPlan,
                 "TFLOPS",
                 "plan: 10^12 operations per second; with it, plan predicts prefill time and the cost of rows of "
                 "a verify",
                 [](O& o, const S& s) { o.device_tflops = s.real_above(0, 1e6); },
                 [](const O& o) { return o.device_tflops == 0 ? "" : shown(o.device_tflops); },
                 "not known"},
                {"reduce-us",
                 {"--reduce-us"},
                 kPlan,
                 "MICROSECONDS",
                 "plan: latency of an all-reduce; there are two per layer",
                 [](O& o, const S& s) { o.reduce_us = s.real_above(0, 1e9); },
                 [](const O& o) { return o.reduce_us == 0 ? "" : shown(o.reduce_us); },
                 "not counted"},
                {"reduce-gbps",
                 {"--reduce-gbps"},
                 kPlan,
                 "GBPS",
                 "plan: bandwidth of a large all-reduce in GB/s",
                 [](O& o, const S& s) { o.reduce_gbps = s.real_above(0, 1e6); },
                 [](const O& o) { return o.reduce_gbps == 0 ? "" : shown(o.reduce_gbps); },
                 "not counted"},
                {"host-gbps",
                 {"--host-gbps"},
                 kPlan,
                 "GBPS",
                 "plan: host memory bandwidth in GB/s, of all ranks together",
                 [](O& o, const S& s) { o.host_gbps = s.real_above(0, 1e6); },
                 [](const O& o) { return o.host_gbps == 0 ? "" : shown(o.host_gbps); },
                 "no limit"},
                {"kv-wire",
                 {"--kv-wire"},
                 kShaped,
                 "raw|coded|auto",
                 "form of streamed tiles in host memory and on the link; coded: lossless, bf16 1.41 times and f16 1.12 "
                 "times smaller. auto: coded where the link is slower than decoding",
                 [](O& o, const S& s) { o.kv_wire = static_cast<KvWire>(s.one_of(kWires)); },
                 [](const O& o) { return std::string(kWires[index(o.kv_wire)]); }},
                {"kv-verify",
                 {"--kv-verify"},
                 kForward,
                 "",
                 "compare the digest of each streamed tile before and after the copy; stop at a difference",
                 [](O& o, const S& s) { o.kv_verify = s.on(); },
                 [](const O& o) { return on_off(o.kv_verify); }},
            }};
}

}  // namespace trireme
