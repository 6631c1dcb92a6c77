#include "offload/window/window_cache.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "offload/stream/table_writer.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;
using HostArena = Arena<Space::kHost>;

constexpr size_t kAngles = 8;  // tables of angles in flight to the device

Shape sinks_shape(const KvLayout& l, const WindowShape& w) {
    return {w.sinks, l.kv_heads * l.head_dim};
}
Shape angles_shape(const KvLayout& l, const WindowShape& w) {
    return {w.sinks, l.head_dim};
}
Shape tile_shape(const KvLayout& l) {
    return {static_cast<int64_t>(l.tile_bytes())};
}
MemoryBytes own_memory(const KvShape& s, const WindowShape& w) {
    const KvLayout& l = s.layout;
    const size_t owner = static_cast<size_t>(tiles_for(w.tokens())) * DeviceArena::bytes_of(DType::kU8, tile_shape(l)) +
                         DeviceArena::bytes_of(DType::kI64, {1, tiles_for(w.tokens())}) +
                         DeviceArena::bytes_of(stored_type(l.k_type), l.staged_shape(l.k_type)) +
                         DeviceArena::bytes_of(stored_type(l.v_type), l.staged_shape(l.v_type)) +
                         2 * DeviceArena::bytes_of(DType::kF32, sinks_shape(l, w));
    return {.device = static_cast<size_t>(s.owner_layers) * owner + 2 * DeviceArena::bytes_of(DType::kI32, {w.sinks}) +
                      DeviceArena::bytes_of(DType::kF32, sinks_shape(l, w)) +
                      kAngles * DeviceArena::bytes_of(DType::kF32, angles_shape(l, w)),
            .host = 2 * HostArena::bytes_of(DType::kI32, {w.sinks}) +
                    kAngles * HostArena::bytes_of(DType::kF32, angles_shape(l, w))};
}

}  // namespace

MemoryBytes WindowCache::memory_for(const KvShape& shape, const WindowShape& window) {
    return own_memory(shape, window) + KeptLists::memory();
}

WindowCache::WindowCache(Device& device, Stream& compute, const KvShape& kv, const WindowShape& window,
                         Rotation rotation)
    : KvCache(kv, {.most_slots = window.tokens() + kMaxRows,
                   .visible = window.tokens(),
                   .prompt_first = window.sinks,
                   .prompt_last = window.recent,
                   .memory = memory_for(kv, window)}),
      window_(window),
      rotation_(std::move(rotation)),
      compute_(compute),
      device_(device, own_memory(kv, window).device),
      host_(device, own_memory(kv, window).host),
      kept_(device, compute) {
    check(kv.sequences == 1 && window.sinks > 0 && window.recent > kMaxRows,
          "window: {} sequences, {} sinks and {} recent tokens; want 1, 1 or more and more than {}", kv.sequences,
          window.sinks, window.recent, kMaxRows);
    const KvLayout& l = kv.layout;
    TableWriter tables(device, compute_, Shape{1, tiles_for(window.tokens())});
    for (int64_t owner = 0; owner < kv.owner_layers; ++owner) {
        layers_.push_back({.layout = l,
                           .tiles = device_.take(DType::kI64, {1, tiles_for(window.tokens())}),
                           .staged_k = device_.take(stored_type(l.k_type), l.staged_shape(l.k_type)),
                           .staged_v = device_.take(stored_type(l.v_type), l.staged_shape(l.v_type))});
        tables.write(layers_.back().tiles, [&](int64_t, int64_t) {
            tiles_.push_back(device_.take(DType::kU8, tile_shape(l)));
            return static_cast<char*>(tiles_.back().data());
        });
        sinks_.push_back(
            {device_.take(DType::kF32, sinks_shape(l, window)), device_.take(DType::kF32, sinks_shape(l, window))});
    }
    moved_ = device_.take(DType::kF32, sinks_shape(l, window));
    for (size_t i = 0; i < kAngles; ++i) {
        angles_.push_back(
            {host_.take(DType::kF32, angles_shape(l, window)), device_.take(DType::kF32, angles_shape(l, window)), {}});
    }
    first_rows_ = device_.take(DType::kI32, {window.sinks});
    sequence_ = device_.take(DType::kI32, {window.sinks});
    const HostTensor numbers = host_.take(DType::kI32, {window.sinks}), zeros = host_.take(DType::kI32, {window.sinks});
    for (int64_t i = 0; i < window.sinks; ++i) {
        static_cast<int32_t*>(numbers.data())[i] = static_cast<int32_t>(i);
        static_cast<int32_t*>(zeros.data())[i] = 0;
    }
    compute_.copy(first_rows_, numbers);
    compute_.copy(sequence_, zeros);
    compute_.synchronize();
}

void WindowCache::write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
                        const Tensor& change) {
    const LayerKv& kv = layers_[owner.at()];
    if (prefill_ < 0) return op.kv_stage(kv, k, v, rows);
    op.kv_append(kv, k, v, rows, change);
    if (rows.max_slots > k.rows() || sinks_here_ == 0) return;  // not the first rows, or too few for sinks
    op.gather_rows(sinks_[owner.at()].k, k, first_rows_);
    op.gather_rows(sinks_[owner.at()].v, v, first_rows_);
}

void WindowCache::attend(Kernels& op, OwnerIndex owner, const AttentionCall& a) {
    op.attention(a.out, a.q, layers_[owner.at()], a.kv_of_head, a.rows);
}

// The sinks keep their slots; recent tokens cycle through the others. Attention does not depend on their order.
int64_t WindowCache::slot_of(int64_t token) const {
    return token < window_.tokens() ? token : sinks_here_ + (token - sinks_here_) % (window_.tokens() - sinks_here_);
}

void WindowCache::state(Archive& ar) {
    ar.section("window view");
    const std::array<int64_t, 2> shape = {window_.sinks, window_.recent};
    ar.same(shape, "the draft's window");
    KvCache::state(ar);
    ar.value(sinks_here_);
    for (const Tensor& tile : tiles_) ar.memory(compute_, tile);
    for (const Sinks& sinks : sinks_) {
        ar.memory(compute_, sinks.k);
        ar.memory(compute_, sinks.v);
    }
}

void WindowCache::keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) {
    const int64_t n = static_cast<int64_t>(rows.size()), first = length(sequence);
    check(staged().are_path(sequence, rows), "window: rows {} are kept and are no path", fmt::join(rows, " "));
    if (n > 0) {
        op.kv_keep(layers_, kept_.send(rows, sequence, [&](int64_t i) { return slot_of(first + i); }));
        kept_.used();
    }
    commit(sequence, first + n);
    if (n > 0 && first + n > window_.tokens() && sinks_here_ > 0) move_sinks(op);
}

// Rotations add up: the sinks' keys, at their first positions, are rotated by the distance that the window has moved.
void WindowCache::move_sinks(Kernels& op) {
    const int64_t moved = length(0) - window_.tokens(), head_dim = shape().layout.head_dim;
    Angles& angles = angles_[next_angles_];
    next_angles_ = (next_angles_ + 1) % angles_.size();
    if (angles.free.stream != nullptr) compute_.synchronize(angles.free);  // recorded eight moves ago
    const Matrix<float> table = angles.host.as<float>();
    for (int64_t i = 0; i < window_.sinks; ++i) {
        rotation_({table.row(i), static_cast<size_t>(head_dim)}, moved);
    }
    compute_.upload(angles.device, angles.host);
    const RowsView rows = {
        .slots = first_rows_, .sequences = sequence_, .cached = {}, .ancestors = {}, .max_slots = window_.sinks};
    for (size_t owner = 0; owner < layers_.size(); ++owner) {
        op.gather_rows(moved_, sinks_[owner].k, first_rows_);
        op.rope(moved_, angles.device, head_dim);
        op.kv_append(layers_[owner], moved_, sinks_[owner].v, rows);
    }
    angles.free = compute_.record();
}

void WindowCache::truncate(int64_t sequence, int64_t n) {
    check(can_truncate(sequence, n), "window: cannot truncate {} tokens to {}: the window of {} has moved on",
          length(sequence), n, window_.tokens());
    prefill_ = -1;
    commit(sequence, n);
}

void WindowCache::begin_prefill(int64_t sequence, int64_t n) {
    check(length(sequence) == 0 && n <= window_.tokens(),
          "window: a prefill of {} tokens after {}, at most {} after none", n, length(sequence), window_.tokens());
    prefill_ = n;
    sinks_here_ = n < window_.sinks ? 0 : window_.sinks;
}

void WindowCache::end() {
    if (prefill_ >= 0) commit(0, prefill_);
    prefill_ = -1;
}

}  // namespace trireme
