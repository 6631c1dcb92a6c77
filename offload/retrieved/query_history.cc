#include "offload/retrieved/query_history.h"

#include <algorithm>
#include <numeric>

#include "kernels/kv.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;
using HostArena = Arena<Space::kHost>;

}  // namespace

MemoryBytes QueryHistory::memory(int64_t owners, int64_t count, int64_t columns) {
    const auto rows = [&](int64_t n) { return DeviceArena::bytes_of(DType::kF32, Shape{n, columns}); };
    return {.device = static_cast<size_t>(owners) * rows(count + kMaxRows) + rows(1) + 2 * rows(count) +
                      DeviceArena::bytes_of(DType::kI32, Shape{kMaxRows}) +
                      kLists * DeviceArena::bytes_of(DType::kI32, Shape{count}),
            .host = HostArena::bytes_of(DType::kF32, Shape{count, columns}) +
                    HostArena::bytes_of(DType::kI32, Shape{kMaxRows}) +
                    kLists * HostArena::bytes_of(DType::kI32, Shape{count})};
}

QueryHistory::QueryHistory(Device& device, Stream& compute, int64_t owners, int64_t count, int64_t columns)
    : compute_(compute),
      count_(count),
      device_(device, memory(owners, count, columns).device),
      host_(device, memory(owners, count, columns).host) {
    for (int64_t i = 0; i < owners; ++i) {
        queries_.push_back(device_.take(DType::kF32, Shape{count + kMaxRows, columns}));
    }
    sum_ = device_.take(DType::kF32, Shape{1, columns});
    next_ = device_.take(DType::kF32, Shape{count, columns});
    none_ = device_.take(DType::kF32, Shape{count, columns});
    numbers_ = device_.take(DType::kI32, Shape{kMaxRows});
    for (List& list : lists_) {
        list.device = device_.take(DType::kI32, Shape{count});
        list.host = host_.take(DType::kI32, Shape{count});
    }
    const HostTensor zeros = host_.take(DType::kF32, Shape{count, columns});
    std::fill_n(static_cast<float*>(zeros.data()), count * columns, 0.0F);
    compute_.copy(none_, zeros);
    const HostTensor numbers = host_.take(DType::kI32, Shape{kMaxRows});
    std::iota(static_cast<int32_t*>(numbers.data()), static_cast<int32_t*>(numbers.data()) + kMaxRows, 0);
    compute_.copy(numbers_, numbers);
    forget();
}

QueryHistory::~QueryHistory() {
    compute_.drain();
}

void QueryHistory::forget() {
    for (const Tensor& queries : queries_) compute_.copy(queries.first_rows(count_), none_, "forget_queries");
}

void QueryHistory::observe(Kernels& op, OwnerIndex owner, const Tensor& q, int64_t first) {
    check(first >= 0 && first + q.rows() <= kMaxRows, "queries: rows {} to {} of {}", first, first + q.rows(),
          kMaxRows);
    op.gather_rows(queries_[owner.at()].slice_rows(count_ + first, q.rows()), q, numbers_.first_rows(q.rows()));
}

Tensor QueryHistory::sum(Kernels& op, OwnerIndex owner, const Tensor& q) {
    op.gather_rows(sum_, q, numbers_.first_rows(1));
    for (int64_t i = 0; i < count_; ++i) op.add(sum_, queries_[owner.at()].slice_rows(i, 1));
    return sum_;
}

// Retains the last count_ queries of the committed tokens followed by `rows`.
void QueryHistory::kept(Kernels& op, std::span<const int32_t> rows) {
    List& list = lists_[next_list_];
    next_list_ = (next_list_ + 1) % lists_.size();
    if (list.free.stream != nullptr) compute_.synchronize(list.free);  // recorded eight rounds ago: usually reached
    auto* from = static_cast<int32_t*>(list.host.data());
    for (int64_t i = 0; i < count_; ++i) {
        const int64_t place = i + static_cast<int64_t>(rows.size());  // index in the concatenation
        from[i] = static_cast<int32_t>(place < count_ ? place : count_ + rows[index(place - count_)]);
    }
    compute_.upload(list.device, list.host);
    for (const Tensor& queries : queries_) {
        op.gather_rows(next_, queries, list.device);
        compute_.copy(queries.first_rows(count_), next_, "keep_queries");
    }
    list.free = compute_.record();
}

}  // namespace trireme
