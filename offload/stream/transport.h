#pragma once
/// Transport: copies streamed layers' tiles between device and host memory, each direction on a stream of its own, and
/// codes them if the shape says so. It owns these streams and the host memory.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "offload/index.h"
#include "offload/stream/host_store.h"
#include "offload/stream/ordering.h"
#include "offload/stream/stream_shape.h"
#include "offload/stream/tile_codec.h"

namespace trireme {

/// An emulated link between host and device (CPU only): a copy takes at least `us` plus its bytes at `gbps`. If `gbps`
/// is 0, no link is emulated.
struct Link {
    double gbps = 0;  // GB/s in each direction
    double us = 0;    // latency: microseconds until a copy's first byte
};

/// This rank's traffic of streamed tiles, and of hidden states in host memory, since the transport was made. The
/// difference of two values is the traffic between two calls of use(). Bytes count when their copy is enqueued, so they
/// do not depend on the link's speed. Times count when the copy is done; on a GPU, only while a trace is recorded.
struct LinkUse {
    uint64_t h2d_bytes = 0, d2h_bytes = 0;                // tiles, as they cross the link
    uint64_t h2d_plain_bytes = 0, d2h_plain_bytes = 0;    // the same tiles, not coded
    uint64_t hidden_h2d_bytes = 0, hidden_d2h_bytes = 0;  // hidden states
    double h2d_ms = 0, d2h_ms = 0;                        // busy time of each direction, for tiles and hidden states
    double stall_ms = 0;                                  // compute waiting for a copy, or for a free buffer
    double codec_ms = 0;                                  // coding and decoding
    LinkUse operator-(const LinkUse& before) const;
    LinkUse operator+(const LinkUse& more) const;
    /// GB/s while copies to the device were in flight; 0: not known.
    double h2d_gbps() const;
    /// The part of the busier direction's copy time that compute did not wait for: 1 if it never waited.
    double hidden_frac() const;
};

class Transport {
  public:
    /// `compute`: the stream whose kernels write and read tiles; it must outlive the object. `owners` [streamed
    /// layers]: the owner that each one is. With `verify` every tile's digest is taken when it is written and again
    /// when it has arrived; if they differ the stream fails with Exit::kInternal, naming tile and owner. Errors:
    /// Exit::kOs where host memory does not suffice, kConfig if the device cannot emulate a link.
    Transport(Device& device, Stream& compute, const StreamShape& shape, std::vector<OwnerIndex> owners,
              const Link& link, bool verify);
    ~Transport();

    /// Emulates another link for copies from here on. Errors: Exit::kConfig if the device cannot.
    void emulate_link(const Link& link);
    LinkUse use() const;
    /// Blocks until all work on the lanes is done; errors are left to the next synchronize() of a stream.
    void drain() noexcept;
    /// Blocks until all tiles that have been given to store() are in host memory; throws the error of that stream, if
    /// any.
    void settle();
    Ordering& order() { return order_; }
    size_t host_bytes() const { return store_.bytes(); }
    /// The number of tiles in host memory that could not be coded.
    int64_t plain_tiles() const { return store_.plain_tiles(); }
    /// Bytes of device memory of the codec.
    static size_t codec_bytes(const StreamShape& shape) { return shape.coded ? TileCodec::device_bytes(shape) : 0; }

    /// Enqueues the copy of a sequence's tiles [tiles.first, tiles.end) from host memory to the device address `to`,
    /// contiguously. Either all of them are shared, or all are the sequence's own, unless it is sequence 0. Lane kH2d
    /// must already wait for `to` to be free. Returns the mark of their arrival, plain.
    Ordering::Mark fetch(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// To be called after the kernels that complete these tiles, at the device address `from`, are enqueued: takes the
    /// tiles' digests, if `verify` is set.
    void seal(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// Consecutive tiles of a layer, at the device address `from`.
    struct Written {
        const char* from;
        StreamedIndex layer;
        TileRange tiles;
    };
    /// Enqueues the copies of a sequence's sealed tiles to host memory, after compute's mark `written`. Returns the
    /// mark of their arrival. If tiles are coded, blocks the host until these are.
    Ordering::Mark store(std::span<const Written> spans, int64_t sequence, const Ordering::Mark& written);
    /// Enqueues a copy of hidden states to the device, after the earlier work on H2D.
    void copy_rows(const Tensor& to, const HostTensor& from);
    /// Enqueues a copy of hidden states to host memory, after the earlier work on D2H.
    void copy_rows(const HostTensor& to, const Tensor& from);
    /// The address of a tile that is stored as it is; null if it is coded. Both are to be used once everything is
    /// drained: its bytes, or decode(). coded_at(): the address of its code.
    char* stored_at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return codec_ ? store_.plain_at(layer, sequence, tile) : store_.at(layer, sequence, tile);
    }
    char* coded_at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return store_.at(layer, sequence, tile);
    }
    /// Decodes a tile that is coded in host memory.
    void decode(StreamedIndex layer, int64_t sequence, int64_t tile, void* to) const;
    /// The mark of the last store() of the sequence's tile number `tile`, in any layer.
    const Ordering::Mark& stored(int64_t sequence, int64_t tile) const { return stored_[place(sequence, tile)]; }

  private:
    class Digests;
    size_t place(int64_t sequence, int64_t tile) const { return static_cast<size_t>(shape_.place(sequence, tile)); }
    void fetch_coded(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    void store_coded(std::span<const Written> spans, int64_t sequence, const Ordering::Mark& written);

    StreamShape shape_;
    std::string_view backend_;
    std::unique_ptr<Stream> h2d_, d2h_, codec_stream_;  // the last: null if tiles are not coded
    Ordering order_;
    HostStore store_;
    std::vector<Ordering::Mark> stored_, fetched_;  // [all_tiles()] the last copies of each, in any layer
    std::unique_ptr<Digests> digests_;
    std::unique_ptr<TileCodec> codec_;
    std::vector<TileCodec::Outgoing> outgoing_;
    LinkUse enqueued_;  // bytes
};

}  // namespace trireme
