#pragma once
/// Rows that a prefill goes over once for every layer, a block at a time: the prompt's residual streams. On the device
/// while they fit, else in host memory, from where blocks pass through a few places on the device.

#include <cstdint>
#include <vector>

#include "offload/stream/transport.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"

namespace trireme {

class RowStore {
  public:
    static constexpr int64_t kPlaces = 3;  // one is computed on, one arrives, one leaves

    /// f32 rows [rows, cols]. `transport` may be null where they lie on the device. Nothing is allocated for 0 rows.
    RowStore(Device& device, Transport* transport, int64_t rows, int64_t cols, int64_t block_rows, bool on_host);
    static MemoryBytes memory(int64_t rows, int64_t cols, int64_t block_rows, bool on_host);

    /// A pass over the blocks of `rows` rows begins: what was there before is void.
    void begin(int64_t rows);
    /// What the work that is about to be enqueued does to a block: writes it without reading it, changes it, only reads
    /// it.
    enum class Use : uint8_t { kWrite, kChange, kRead };
    /// Block i, for work that is enqueued on compute from here on. Unless it is about to be overwritten, the copy of
    /// the next block (behind the last one: the first) is started, too.
    Tensor open(int64_t block, Use use);
    /// The work on block i has been enqueued: the block is stored behind it, unless it was only read.
    void close(int64_t block);

  private:
    struct Place {
        int64_t block = -1;
        Use use = Use::kRead;
        Ordering::Mark filled, used, stored;  // the last of each
    };

    int64_t rows_of(int64_t block) const;
    /// The place that holds block i; null: none.
    Place* find(int64_t block);
    /// The place used longest ago, for block i: `lane` may write it.
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
    std::vector<Ordering::Mark> stored_;  // of every block
};

}  // namespace trireme
