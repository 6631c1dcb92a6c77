#pragma once
/// Tiles of streamed layers on their way between the device and the host, each way on a stream of its own.

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/kv.h"
#include "offload/index.h"
#include "offload/stream/host_store.h"
#include "offload/stream/ordering.h"

namespace trireme {

/// What every part of the streaming needs to know.
struct StreamShape {
    KvLayout layout;
    int64_t layers = 0;  // streamed ones
    int64_t sequences = 1;
    int64_t tiles = 0;      // of a sequence
    size_t span_bytes = 0;  // a span is at least so long, where there are that many tiles

    size_t tile_bytes() const { return layout.tile_bytes(); }
};

/// A link of another machine, emulated (CPU only): what a copy takes at least. 0 gbps: as fast as it goes.
struct Link {
    double gbps = 0;  // each way
    double us = 0;    // from the start of a copy to its first byte
};

/// What streamed tiles, and hidden states that lie in host memory, did on their way, on this rank: since the transport
/// was made, or between two moments. A copy counts when it is done; on a card its bytes count when it is enqueued, and
/// its time is known only while a trace is kept.
struct LinkUse {
    uint64_t h2d_bytes = 0, d2h_bytes = 0;                // tiles
    uint64_t hidden_h2d_bytes = 0, hidden_d2h_bytes = 0;  // hidden states
    double h2d_ms = 0, d2h_ms = 0;                        // the link at work, for both
    double stall_ms = 0;                                  // compute waiting for what comes, or for room
    LinkUse operator-(const LinkUse& before) const;
};

class Transport {
  public:
    /// `compute` is where tiles are written and read; it must outlive the object. With `verify` every tile's digest is
    /// taken when it is written and again when it has arrived: the stream fails with Exit::kInternal if they differ,
    /// and names the tile and its layer: `owners` has the owner that each streamed layer is.
    Transport(Device& device, Stream& compute, const StreamShape& shape, std::vector<OwnerIndex> owners,
              const Link& link, bool verify);
    ~Transport();

    /// From here on copies travel over another link.
    void emulate_link(const Link& link);
    LinkUse use() const;
    /// Waits for everything on all three lanes. Errors are not thrown here, but when a stream is synchronized next.
    void drain() noexcept;
    /// Waits until what is to be stored lies in host memory, and throws what went wrong on its way.
    void settle();
    Ordering& order() { return order_; }
    size_t host_bytes() const { return store_.bytes(); }

    /// Tiles [tiles.first, tiles.end) from host memory to `to`, one after the other. The mark of their arrival.
    Ordering::Mark fetch(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// The work that writes these tiles, which lie at `from`, has been enqueued on compute: their digests are taken
    /// behind it, if that is asked for.
    void seal(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// Sealed tiles to host memory, behind compute's mark. The mark of their being there.
    Ordering::Mark store(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles,
                         const Ordering::Mark& written);
    /// The last store of a tile, of any layer's.
    const Ordering::Mark& stored(int64_t sequence, int64_t tile) const {
        return stored_[static_cast<size_t>(sequence * shape_.tiles + tile)];
    }

  private:
    class Digests;

    StreamShape shape_;
    std::unique_ptr<Stream> h2d_, d2h_;
    Ordering order_;
    HostStore store_;
    std::vector<Ordering::Mark> stored_, fetched_;  // [sequences, tiles]: the last of each
    std::unique_ptr<Digests> digests_;
};

}  // namespace trireme
