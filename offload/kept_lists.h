#pragma once
/// Upload buffers for lists of staged rows and the slots that they are committed to. There are several, so that
/// enqueueing need not wait for the last one.

#include <array>
#include <cstdint>
#include <span>

#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"
#include "runtime/stream.h"

namespace trireme {

class KeptLists {
  public:
    KeptLists(Device& device, Stream& compute);
    static MemoryBytes memory();

    /// Uploads a list for Kernels::kv_keep: rows[i] goes to slot slot_of(i) of the sequence. At most kMaxRows rows.
    template <class SlotOf>
    Tensor send(std::span<const int32_t> rows, int64_t sequence, const SlotOf& slot_of) {
        const Matrix<int32_t> list = next();
        for (size_t i = 0; i < rows.size(); ++i) {
            const auto r = static_cast<int64_t>(i);
            list(r, 0) = rows[i];
            list(r, 1) = static_cast<int32_t>(slot_of(r));
            list(r, 2) = static_cast<int32_t>(sequence);
        }
        return send(static_cast<int64_t>(rows.size()));
    }
    /// Call this when the kernels that read the last list have been enqueued.
    void used();

  private:
    struct Slot {
        HostTensor host;  // i32 [kMaxRows, 3]
        Tensor device;
        Event free;  // reached when the kernels that read it are done
    };
    Matrix<int32_t> next();
    Tensor send(int64_t n);

    static constexpr size_t kLists = 8;
    Stream& compute_;
    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
    std::array<Slot, kLists> lists_;
    size_t next_ = 0;
};

}  // namespace trireme
