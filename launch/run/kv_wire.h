#pragma once
/// KvWireChoice: whether streamed tiles are coded in host memory and on the link (--kv-wire).

#include <string>
#include <string_view>

#include "kernels/kv.h"
#include "launch/flags/options.h"

namespace trireme {

struct KvWireChoice {
    bool coded = false;
    std::string reason;  // for the log
};

/// Errors: Exit::kConfig for --kv-wire coded and a layout that has no code (has_tile_code()).
KvWireChoice choose_kv_wire(const Options& o, const KvLayout& layout, std::string_view backend);

}  // namespace trireme
