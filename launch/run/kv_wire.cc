#include "launch/run/kv_wire.h"

#include <fmt/format.h>

#include "kernels/kv.h"
#include "kernels/tile_code.h"
#include "runtime/error.h"

namespace trireme {
namespace {

/// GB/s of plain tiles that one CPU thread decodes: 5.3 to 9.0 on an AMD EPYC with AVX-512 (kernels/README.md), with
/// a margin for others.
constexpr double kCpuDecodeGbps = 3;

/// The type is the user's choice: it decides how keys and values round, which must not depend on a link.
std::string hint(const KvLayout& layout) {
    const bool all_bf16 = layout.k_type == DType::kBF16 && layout.v_type == DType::kBF16;
    return all_bf16 ? "" : "; f16 becomes 1.12 times smaller, bf16 (--kv-cache-dtype bf16) 1.41 times";
}

}  // namespace

KvWireChoice choose_kv_wire(const Options& o, int64_t head_dim, std::string_view backend) {
    const KvLayout layout{.head_dim = head_dim, .k_type = o.cache_type_k, .v_type = o.cache_type_v};
    const bool can = has_tile_code(layout);
    const std::string types = fmt::format("{}/{} keys and values, heads of {} elements", name_of(layout.k_type),
                                          name_of(layout.v_type), layout.head_dim);
    if (o.kv_wire == KvWire::kRaw) return {false, "--kv-wire raw"};
    if (o.kv_wire == KvWire::kCoded) {
        require(can, Exit::kConfig,
                "--kv-wire coded: {}; a code exists for bf16 and f16, and heads of a multiple of 4 elements up to {}: "
                "choose --kv-cache-dtype bf16, or --kv-wire raw",
                types, kCodedDim);
        return {true, "--kv-wire coded" + hint(layout)};
    }
    if (!can) return {false, types};
    if (backend == "cuda") {
        return {true, "decoding reads and writes device memory, which is faster than a link" + hint(layout)};
    }
    if (o.link.gbps == 0) return {false, "copies have the speed of memory: no --link-gbps"};
    if (o.link.gbps > kCpuDecodeGbps) {
        return {false, fmt::format("a link of {} GB/s is faster than decoding", o.link.gbps)};
    }
    return {true, fmt::format("a link of {} GB/s is slower than decoding{}", o.link.gbps, hint(layout))};
}

bool kv_lossy(const Options& o) {
    return KvLayout{.k_type = o.cache_type_k, .v_type = o.cache_type_v}.lossy();
}

void require_kv_types(const Options& o, int64_t head_dim) {
    require(!kv_lossy(o) || quantises(head_dim), Exit::kConfig,
            "--kv-cache-dtype q8_0: heads of {} elements, where a multiple of {} up to {} can be quantised: choose f16 "
            "or bf16",
            head_dim, kQuantBlock, kMostQuantised);
}

}  // namespace trireme
