#pragma once
/// TileCodec: codes tiles that go to host memory, and decodes those that come back (kernels/tile_code.h), on a stream
/// of its own. Between the link and the codec are small device buffers, so that both work at the same time. Transport
/// uses it.

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/tile_coder.h"
#include "offload/stream/ordering.h"
#include "offload/stream/stream_shape.h"
#include "runtime/buffer.h"

namespace trireme {

class TileCodec {
  public:
    /// Bytes of device memory.
    static size_t device_bytes(const StreamShape& shape);

    /// `order`: whose lanes kH2d, kD2h and kCodec it uses.
    TileCodec(Device& device, Ordering& order, const StreamShape& shape);

    /// Enqueues the copy of n coded tiles from host memory, and their decoding to the device address `to`. Lane kH2d
    /// must already wait for `to` to be free.
    void fetch(char* to, const char* coded, int64_t n);

    /// A tile that goes to host memory.
    struct Outgoing {
        const char* plain;  // on the device
        char* coded;        // its place in host memory
        bool fits;          // result: it was coded; false: it has too many escapes, and nothing was copied
    };
    /// Encodes tiles and enqueues the copies of those that fit. Blocks the host until they are encoded: only then is
    /// it known which are. Lane kD2h must already wait for their places to be free; `written`: the mark after which
    /// they may be read.
    void store(std::span<Outgoing> tiles, const Ordering::Mark& written);

  private:
    struct Stage {
        Buffer<Space::kDevice> memory;
        Ordering::Mark free;  // after it, the buffer may be written
    };
    static constexpr size_t kIncoming = 4, kOutgoing = 2;
    static int64_t stage_tiles(const StreamShape& shape);
    char* at(const Stage& stage, int64_t tile) const;
    void store_some(std::span<Outgoing> tiles, Stage& stage);

    Ordering& order_;
    size_t tile_bytes_;
    int64_t stage_tiles_;
    std::unique_ptr<TileCoder> coder_;
    std::array<Stage, kIncoming> incoming_;
    std::array<Stage, kOutgoing> outgoing_;
    size_t next_in_ = 0, next_out_ = 0;
    Buffer<Space::kDevice> counts_;  // u32 [stage_tiles_]
    Buffer<Space::kHost> host_counts_;
};

}  // namespace trireme
