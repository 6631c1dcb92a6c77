#pragma once
/// KeptLists: uploads lists of staged rows and the slots that they are committed to, for Kernels::kv_keep. Caches and
/// sets use it when rows are kept. There are kLists buffers, so that the host rarely waits for the device.

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

    /// Uploads a list of at most kMaxRows rows: rows[i] goes to slot slot_of(i) of the sequence. Returns i32 [rows, 3]
    /// on the device. Blocks while the device still reads the list of kLists calls ago.
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
    /// To be called after the kernels that read the last list are enqueued. Its buffer may be reused when they are
    /// done.
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
