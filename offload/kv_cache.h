#pragma once
/// The KV of every owner layer as tiles with addresses for ever; rows become tokens by keep().

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/kv.h"
#include "runtime/buffer.h"

namespace trireme {

struct KvShape {
    KvLayout layout;
    int64_t owner_layers = 0;
    int64_t sequences = 1;
    int64_t context = 0;  // tokens a sequence may have

    int64_t tiles_per_sequence() const { return (context + kTileTokens - 1) / kTileTokens; }
    size_t bytes() const {
        return static_cast<size_t>(owner_layers * sequences * tiles_per_sequence()) * layout.tile_bytes();
    }
};

class KvCache {
  public:
    /// Errors: Exit::kOs when the device has no room. `stream` fills the address tables and is where keep() runs.
    KvCache(Device& device, Stream& stream, const KvShape& shape);

    const KvShape& shape() const { return shape_; }
    /// What attention of one owner layer sees.
    const LayerKv& layer(int64_t owner) const { return layers_[static_cast<size_t>(owner)]; }

    /// Committed tokens of a sequence.
    int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }
    /// Prefill has put n more tokens into the tiles.
    void append(int64_t sequence, int64_t n);
    /// Staged rows `rows` become the sequence's next tokens. Enqueues one small kernel a layer.
    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows);
    /// Forgets tokens from position n on; their slots are overwritten later.
    void truncate(int64_t sequence, int64_t n);

  private:
    /// A keep() list on its way to the device. A small ring of them, so that enqueueing need not wait for the last.
    struct KeptSlot {
        HostTensor host;  // i32 [kMaxRows, 3]
        Tensor device;
        Event free;  // the kernels that read it are done
    };
    static constexpr size_t kKeptSlots = 8;

    KvShape shape_;
    Stream& stream_;
    Buffer<Space::kDevice> tiles_;
    Arena<Space::kDevice> device_meta_;  // address tables, staged rows, keep() lists
    Arena<Space::kHost> host_meta_;
    std::vector<LayerKv> layers_;
    std::vector<int64_t> lengths_;
    std::array<KeptSlot, kKeptSlots> kept_;
    size_t next_kept_ = 0;
};

}  // namespace trireme
