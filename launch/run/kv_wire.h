#pragma once
/// KvWireChoice: whether streamed tiles are coded in host memory and on the link (--kv-wire); and whether a model's
/// heads can have the cache's types.

#include <cstdint>
#include <string>
#include <string_view>

#include "launch/flags/options.h"

namespace trireme {

struct KvWireChoice {
    bool coded = false;
    std::string reason;  // for the log
};

/// Errors: Exit::kConfig for --kv-wire coded and keys and values that have no code (has_tile_code()).
KvWireChoice choose_kv_wire(const Options& o, int64_t head_dim, std::string_view backend);

/// Errors: Exit::kConfig for a q8_0 cache and a model whose heads cannot be quantised (kernels/kv.h).
void require_kv_types(const Options& o, int64_t head_dim);
/// Whether keys or values lose bits, for reports.
bool kv_lossy(const Options& o);

}  // namespace trireme
