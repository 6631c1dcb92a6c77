#pragma once
/// Transport: copies streamed layers' tiles between device and host memory, each direction on a stream of its own. It
/// owns these two streams and the host memory.

#include <cstdint>
#include <memory>
#include <vector>

#include "offload/index.h"
#include "offload/stream/host_store.h"
#include "offload/stream/ordering.h"
#include "offload/stream/stream_shape.h"

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
    uint64_t h2d_bytes = 0, d2h_bytes = 0;                // tiles
    uint64_t hidden_h2d_bytes = 0, hidden_d2h_bytes = 0;  // hidden states
    double h2d_ms = 0, d2h_ms = 0;                        // busy time of each direction, for tiles and hidden states
    double stall_ms = 0;                                  // compute waiting for a copy, or for a free buffer
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
    /// Blocks until all work on the three lanes is done; errors are left to the next synchronize() of a stream.
    void drain() noexcept;
    /// Blocks until all tiles that have been given to store() are in host memory; throws the error of that stream, if
    /// any.
    void settle();
    Ordering& order() { return order_; }
    size_t host_bytes() const { return store_.bytes(); }

    /// Enqueues the copy of a sequence's tiles [tiles.first, tiles.end) from host memory to the device address `to`,
    /// contiguously. Either all of them are shared, or all are the sequence's own, unless it is sequence 0. Returns the
    /// mark of their arrival.
    Ordering::Mark fetch(char* to, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// To be called after the kernels that complete these tiles, at the device address `from`, are enqueued: takes the
    /// tiles' digests, if `verify` is set.
    void seal(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles);
    /// Enqueues the copy of sealed tiles from the device address `from` to host memory, after compute's mark `written`.
    /// Returns the mark of their arrival.
    Ordering::Mark store(const char* from, StreamedIndex layer, int64_t sequence, const TileRange& tiles,
                         const Ordering::Mark& written);
    /// Enqueues a copy of hidden states to the device, after the earlier work on H2D.
    void copy_rows(const Tensor& to, const HostTensor& from);
    /// Enqueues a copy of hidden states to host memory, after the earlier work on D2H.
    void copy_rows(const HostTensor& to, const Tensor& from);
    /// The address of a tile in host memory. Its bytes are valid once everything is drained.
    char* stored_at(StreamedIndex layer, int64_t sequence, int64_t tile) const {
        return store_.at(layer, sequence, tile);
    }
    /// The mark of the last store() of the sequence's tile number `tile`, in any layer.
    const Ordering::Mark& stored(int64_t sequence, int64_t tile) const { return stored_[place(sequence, tile)]; }

  private:
    class Digests;
    size_t place(int64_t sequence, int64_t tile) const { return static_cast<size_t>(shape_.place(sequence, tile)); }

    StreamShape shape_;
    std::unique_ptr<Stream> h2d_, d2h_;
    Ordering order_;
    HostStore store_;
    std::vector<Ordering::Mark> stored_, fetched_;  // [all_tiles()] the last copies of each, in any layer
    std::unique_ptr<Digests> digests_;
    LinkUse enqueued_;  // bytes
};

}  // namespace trireme
