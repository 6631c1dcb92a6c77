#include "offload/evicting/recent_queries.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

}  // namespace

size_t RecentQueries::memory(int64_t layers, int64_t columns, int64_t tokens) {
    return 2 * DeviceArena::bytes_of(DType::kF32, {tokens, layers * columns}) +
           DeviceArena::bytes_of(DType::kF32, {1, layers * columns}) + DeviceArena::bytes_of(DType::kI32, {tokens});
}

RecentQueries::RecentQueries(Device& device, Stream& compute, int64_t layers, int64_t columns, int64_t tokens)
    : compute_(compute),
      columns_(columns),
      tokens_(tokens),
      device_(device, memory(layers, columns, tokens)),
      ring_(device_.take(DType::kF32, {tokens, layers * columns})),
      saved_(device_.take(DType::kF32, {tokens, layers * columns})),
      staged_(device_.take(DType::kF32, {1, layers * columns})),
      numbers_(device_.take(DType::kI32, {tokens})),
      positions_(static_cast<size_t>(tokens)) {
    Buffer<Space::kHost> host(device, static_cast<size_t>(tokens) * sizeof(int32_t));
    const HostTensor numbers = host.tensor(DType::kI32, {tokens});
    for (int64_t i = 0; i < tokens; ++i) static_cast<int32_t*>(numbers.data())[i] = static_cast<int32_t>(i);
    compute_.copy(numbers_, numbers);
    compute_.synchronize();
}

void RecentQueries::take(Kernels& op, LayerIndex layer, const Tensor& q, int64_t token, int64_t position) {
    const int64_t skip = std::max(int64_t{0}, q.rows() - tokens_);
    for (int64_t r = skip; r < q.rows();) {
        const auto at = static_cast<int64_t>(place(token + r));
        const int64_t n = std::min(tokens_ - at, q.rows() - r);
        op.gather_rows(ring_.slice_rows(at, n).slice_cols(layer.i * columns_, columns_), q.slice_rows(r, n),
                       numbers_.first_rows(n));
        r += n;
    }
    for (int64_t r = skip; r < q.rows(); ++r) positions_[place(token + r)] = position + r;
}

void RecentQueries::stage(Kernels& op, LayerIndex layer, const Tensor& q) {
    op.gather_rows(staged_.slice_cols(layer.i * columns_, columns_), q, numbers_.first_rows(1));
}

void RecentQueries::keep(int64_t token, int64_t position) {
    compute_.copy(ring_.slice_rows(static_cast<int64_t>(place(token)), 1), staged_);
    positions_[place(token)] = position;
}

RecentQueries::Parts RecentQueries::parts(LayerIndex layer, int64_t first, int64_t n) const {
    check(n <= tokens_, "recent queries: {} of {}", n, tokens_);
    Parts parts;
    for (int64_t t = first; t < first + n;) {
        const auto at = static_cast<int64_t>(place(t));
        const int64_t some = std::min(tokens_ - at, first + n - t);
        parts.all[parts.n++] = {t, ring_.slice_rows(at, some).slice_cols(layer.i * columns_, columns_)};
        t += some;
    }
    return parts;
}

void RecentQueries::copy_from(const RecentQueries& other) {
    compute_.copy(ring_, other.ring_);
    positions_ = other.positions_;
}

void RecentQueries::save() {
    compute_.copy(saved_, ring_);
    saved_positions_ = positions_;
}

void RecentQueries::restore() {
    compute_.copy(ring_, saved_);
    positions_ = saved_positions_;
}

}  // namespace trireme
