#pragma once
/// Batch: per-row inputs of a forward (ids, slots, ancestors, rotary angles), built on the host and sent in one copy.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv.h"
#include "model/checkpoint/rope.h"
#include "offload/cache.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"
#include "runtime/stream.h"

namespace trireme {

/// A token to be computed. Its parent is an earlier staged row, or -1: the last committed token. Its position is one
/// more than its parent's.
struct Row {
    int32_t token;
    int32_t position;
    int32_t parent = -1;
    int32_t sequence = 0;
};

/// The rows of one forward in device memory.
struct Batch {
    int64_t rows = 0;
    bool prefill = false;
    Tensor ids;      // i32 [rows]
    Tensor cos_sin;  // f32 [rows, head_dim]: cosines of the pairs, then sines
    RowsView cache;
    Tensor before;  // i32 [rows]: the slot before each row's own

    /// Returns the last row of a prefill as a batch.
    Batch last() const {
        Batch one = *this;
        const auto last_of = [&](const Tensor& all) { return all.slice_rows(rows - 1, 1); };
        one.rows = 1;
        for (Tensor* all : {&one.ids, &one.cos_sin, &one.before, &one.cache.slots, &one.cache.sequences,
                            &one.cache.cached, &one.cache.ancestors}) {
            *all = last_of(*all);
        }
        return one;
    }
    /// Returns what rows see in a layer: the last `window` tokens, themselves included. In a `strict` layer, rows do
    /// not see themselves.
    RowsView seen(bool strict, int64_t window) const {
        RowsView all = cache;
        if (strict) all.slots = before;
        if (window < kEverySlot) all.window = window - (strict ? 1 : 0);
        return all;
    }
};

/// Makes batches in device memory through buffers in pinned host memory. A batch may be used by work that is enqueued
/// before `places` further batches are made. Nothing is allocated after construction.
class BatchMaker {
  public:
    static MemoryBytes memory(int64_t head_dim, int64_t max_rows, int64_t places = 1);
    /// Makes batches of at most `max_rows` rows; with more than kMaxRows, for prefills only. Errors: Exit::kOs.
    BatchMaker(Device& device, Stream& stream, Rope& rope, int64_t head_dim, int64_t max_rows, int64_t places = 1);

    /// Exclusive upper bounds of the rows' slots and of their ancestors' numbers, for kernels.
    struct Bounds {
        int64_t slots = 0, staged = 0;
    };
    /// Returns a decode batch of rows that `cache` has staged with the numbers `first`, `first` + 1, .., followed by
    /// padding rows up to `padded` rows. For a row at position p, dynamic rotary scaling takes p + 1 as the length.
    Batch decode(std::span<const Row> rows, int64_t padded, const KvCache& cache, int32_t first, const Bounds& bounds);
    /// Returns a prefill batch of consecutive prompt tokens from `position` on, in slots from `first_slot` on. For all
    /// rows, dynamic rotary scaling takes `length`, that of the whole prompt, as the length.
    Batch prefill(std::span<const int32_t> tokens, int64_t sequence, int64_t position, int64_t first_slot,
                  int64_t length);

  private:
    struct Slot {
        HostTensor host;  // u8: the fields below, one after another
        Tensor device;    // its copy
        Event free;       // reached when it has been copied to the device
    };
    struct Fields {
        int32_t *ids, *slots, *before, *sequences, *cached, *ancestors;
        float* cos_sin;
    };
    static constexpr int64_t kSlots = 4;  // the host may be at least this many batches ahead of the device
    static int64_t slots_for(int64_t places);

    Slot& next_slot();
    Fields fields(void* base) const;
    Batch send(Slot& slot, int64_t rows, const Bounds& bounds);

    Stream& stream_;
    Rope& rope_;
    int64_t head_dim_, max_rows_, ancestors_;  // ancestors_: the most that a row may have
    Arena<Space::kHost> host_;
    Arena<Space::kDevice> device_;
    std::vector<Slot> slots_;
    size_t next_ = 0;
};

}  // namespace trireme
