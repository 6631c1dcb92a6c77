#pragma once
/// KvWireChoice: whether streamed tiles are coded in host memory and on the link (--kv-wire).

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

}  // namespace trireme
