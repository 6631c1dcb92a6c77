#pragma once
/// RowStore: the residual streams (hidden states) of a prompt in a layer-by-layer prefill. Level updates them once for
/// every layer, a block of rows at a time. They are on the device, or in host memory. In the second case blocks are
/// copied through kPlaces buffers on the device. No call blocks the host.

#include <cstdint>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"

namespace trireme {

class RowStore {
  public:
    static constexpr int64_t kPlaces = 3;  // one is computed on, one arrives, one leaves

    /// Stores f32 [rows, cols], in blocks of `block_rows` rows; `rows` is the most of a prompt. `transport` makes the
    /// copies and must outlive the object; it may be null unless `on_host`. Nothing is allocated for 0 rows. Errors:
    /// Exit::kOs where memory does not suffice.
    RowStore(Device& device, Transport* transport, int64_t rows, int64_t cols, int64_t block_rows, bool on_host);
    static MemoryBytes memory(int64_t rows, int64_t cols, int64_t block_rows, bool on_host);

    /// Begins a prompt of `rows` rows; the rows of the previous one are discarded.
    void begin(int64_t rows);
    /// What kernels will do to a block: write it without reading it, change it, or only read it.
    enum class Use : uint8_t { kWrite, kChange, kRead };
    /// Returns a block (numbered from 0), f32 [rows of the block, cols], for kernels that are enqueued from here on.
    /// With rows in host memory and unless `use` is kWrite, also enqueues the copy of the next block to the device;
    /// after the last block, that of the first.
    Tensor open(int64_t block, Use use);
    /// To be called after all kernels that use the block are enqueued: copies it back to host memory, unless the rows
    /// are on the device or `use` was kRead.
    void close(int64_t block);

  private:
    struct Place {
        int64_t block = -1;  // the block that it holds; -1: none
        Use use = Use::kRead;
        Ordering::Mark filled, used, stored;  // last copy in, last use by compute, last copy out
    };

    int64_t rows_of(int64_t block) const;
    /// The place that holds block i; null if none does.
    Place* find(int64_t block);
    /// Assigns the place that was taken longest ago to block i, and makes `lane` wait until it may be overwritten.
    Place& take(Lane lane, int64_t block);
    Place& fetch(int64_t block);
    Tensor rows_at(const Place& place) const;
    HostTensor host_rows(int64_t block) const;
    Ordering& order() { return transport_->order(); }

    Transport* transport_;
    int64_t cols_, block_rows_, rows_ = 0;
    bool on_host_;
    Buffer<Space::kDevice> device_;
    Buffer<Space::kHost> host_;
    std::vector<Place> places_;
    size_t next_place_ = 0;
    std::vector<Ordering::Mark> stored_;  // [blocks] the last copy of each to host memory
};

}  // namespace trireme
