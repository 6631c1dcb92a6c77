#include "offload/kv_cache.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;
using HostArena = Arena<Space::kHost>;

Shape table_shape(const KvShape& s) {
    return {s.sequences, s.tiles_per_sequence()};
}
Shape staged_shape(const KvShape& s) {
    return {s.layout.kv_heads, kMaxRows, s.layout.head_dim};
}
const Shape kKeptShape{kMaxRows, 3};

size_t device_meta_bytes(const KvShape& s, size_t kept_slots) {
    const size_t layer = DeviceArena::bytes_of(DType::kI64, table_shape(s)) +
                         DeviceArena::bytes_of(s.layout.k_type, staged_shape(s)) +
                         DeviceArena::bytes_of(s.layout.v_type, staged_shape(s));
    return static_cast<size_t>(s.owner_layers) * layer + kept_slots * DeviceArena::bytes_of(DType::kI32, kKeptShape);
}

size_t host_meta_bytes(const KvShape& s, size_t kept_slots) {
    return static_cast<size_t>(s.owner_layers) * HostArena::bytes_of(DType::kI64, table_shape(s)) +
           kept_slots * HostArena::bytes_of(DType::kI32, kKeptShape);
}

}  // namespace

KvCache::KvCache(Device& device, Stream& stream, const KvShape& shape)
    : shape_(shape),
      stream_(stream),
      tiles_(device, shape.bytes()),
      device_meta_(device, device_meta_bytes(shape, kKeptSlots)),
      host_meta_(device, host_meta_bytes(shape, kKeptSlots)),
      lengths_(static_cast<size_t>(shape.sequences), 0) {
    auto* next_tile = static_cast<char*>(tiles_.data());
    for (int64_t owner = 0; owner < shape.owner_layers; ++owner) {
        LayerKv kv;
        kv.layout = shape.layout;
        kv.tiles = device_meta_.take(DType::kI64, table_shape(shape));
        kv.staged_k = device_meta_.take(shape.layout.k_type, staged_shape(shape));
        kv.staged_v = device_meta_.take(shape.layout.v_type, staged_shape(shape));

        const HostTensor table = host_meta_.take(DType::kI64, table_shape(shape));
        for (int64_t i = 0; i < table.shape().elements(); ++i) {
            static_cast<int64_t*>(table.data())[i] = reinterpret_cast<int64_t>(next_tile);
            next_tile += shape.layout.tile_bytes();
        }
        stream_.copy(kv.tiles, table);
        layers_.push_back(kv);
    }
    for (KeptSlot& slot : kept_) {
        slot.host = host_meta_.take(DType::kI32, kKeptShape);
        slot.device = device_meta_.take(DType::kI32, kKeptShape);
    }
    stream_.synchronize();
}

void KvCache::append(int64_t sequence, int64_t n) {
    int64_t& length = lengths_[static_cast<size_t>(sequence)];
    check(n >= 0 && length + n <= shape_.context, "kv: {} tokens appended to {} of {}", n, length, shape_.context);
    length += n;
}

void KvCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    const int64_t n = static_cast<int64_t>(rows.size()), first = length(sequence);
    check(n <= kMaxRows && first + n <= shape_.context, "kv: {} rows kept behind {} of {} tokens", n, first,
          shape_.context);
    if (n == 0) return;

    KeptSlot& slot = kept_[next_kept_];
    next_kept_ = (next_kept_ + 1) % kept_.size();
    if (slot.free.stream != nullptr) stream_.synchronize(slot.free);  // eight keeps ago: reached long since
    const Matrix<int32_t> list = slot.host.as<int32_t>();
    for (int64_t i = 0; i < n; ++i) {
        list(i, 0) = rows[static_cast<size_t>(i)];
        list(i, 1) = static_cast<int32_t>(first + i);
        list(i, 2) = static_cast<int32_t>(sequence);
    }

    const Tensor kept = slot.device.first_rows(n);
    stream_.copy(kept, slot.host.first_rows(n));
    for (const LayerKv& kv : layers_) op.kv_keep(kv, kept);
    slot.free = stream_.record();
    lengths_[static_cast<size_t>(sequence)] += n;
}

void KvCache::truncate(int64_t sequence, int64_t n) {
    check(n >= 0 && n <= length(sequence), "kv: cannot truncate {} tokens to {}", length(sequence), n);
    lengths_[static_cast<size_t>(sequence)] = n;
}

}  // namespace trireme
