#include "offload/kept_lists.h"

#include "kernels/kv.h"

namespace trireme {
namespace {

const Shape kShape{kMaxRows, 3};

}  // namespace

MemoryBytes KeptLists::memory() {
    return {.device = kLists * Arena<Space::kDevice>::bytes_of(DType::kI32, kShape),
            .host = kLists * Arena<Space::kHost>::bytes_of(DType::kI32, kShape)};
}

KeptLists::KeptLists(Device& device, Stream& compute)
    : compute_(compute), device_(device, memory().device), host_(device, memory().host) {
    for (Slot& slot : lists_) {
        slot.host = host_.take(DType::kI32, kShape);
        slot.device = device_.take(DType::kI32, kShape);
    }
}

Matrix<int32_t> KeptLists::next() {
    next_ = (next_ + 1) % lists_.size();
    const Slot& slot = lists_[next_];
    if (slot.free.stream != nullptr) compute_.synchronize(slot.free);  // recorded eight lists ago: usually reached
    return slot.host.as<int32_t>();
}

Tensor KeptLists::send(int64_t n) {
    const Slot& slot = lists_[next_];
    compute_.upload(slot.device.first_rows(n), slot.host.first_rows(n));
    return slot.device.first_rows(n);
}

void KeptLists::used() {
    lists_[next_].free = compute_.record();
}

}  // namespace trireme
