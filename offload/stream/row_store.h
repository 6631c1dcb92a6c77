#pragma once
/// The residual streams of a prompt, which a layer-by-layer prefill updates once for every layer, a block of rows at a
/// time. They are on the device, or in host memory; from there, blocks are copied through a few places on the device.

#include <cstdint>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"

namespace trireme {

class RowStore {
  public:
    static constexpr int64_t kPlaces = 3;  // one is computed on, one arrives, one leaves

    /// Stores f32 [rows, cols], in blocks of `block_rows` rows. `transport` makes the copies; it may be null unless
    /// `on_host`. Nothing is allocated for 0 rows. Errors: Exit::kOs where memory does not suffice.
    RowStore(Device& device, Transport* transport, int64_t rows, int64_t cols, int64_t block_rows, bool on_host);
    static MemoryBytes memory(int64_t rows, int64_t cols, int64_t block_rows, bool on_host);

    /// Begins a prompt of `rows` rows; the rows of the previous one are discarded.
    void begin(int64_t rows);
    /// What kernels will do to a block: write it without reading it, change it, or only read it.
    enum class Use : uint8_t { kWrite, kChange, kRead };
    /// Returns block i, f32 [rows of the block, cols], for kernels that are enqueued from here on. Unless `use` is
    /// kWrite, the copy of the next block is enqueued as well; after the last block, that of the first.
    Tensor open(int64_t block, Use use);
    /// To be called after all kernels that use block i are enqueued: copies the block back to host memory, unless it
    /// was only read.
    void close(int64_t block);

  private:
    struct Place {
        int64_t block = -1;
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
