#include "model/head_mean.h"

#include "offload/upload.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceMemory = Arena<Space::kDevice>;

}  // namespace

size_t HeadMean::memory(const Shard& shard, int64_t owners, int64_t most) {
    const int64_t heads = shard.n_kv_heads;
    return DeviceMemory::bytes_of(DType::kF32, {most}) + DeviceMemory::bytes_of(DType::kF32, {heads}) +
           DeviceMemory::bytes_of(DType::kI32, {heads}) + DeviceMemory::bytes_of(DType::kI32, {owners * heads});
}

HeadMean::HeadMean(Device& device, Stream& stream, Comm& comm, const LlamaConfig& config, const Shard& shard,
                   int64_t owners, int64_t most)
    : stream_(stream),
      comm_(comm),
      kv_heads_(shard.n_kv_heads),
      most_(most),
      device_(device, memory(shard, owners, most)),
      sums_(device_.take(DType::kF32, {most})),
      shares_(device_.take(DType::kF32, {kv_heads_})),
      nulls_(device_.take(DType::kI32, {kv_heads_})),
      owners_(device_.take(DType::kI32, {owners * kv_heads_})) {
    const int64_t own = shard.kv_first - shard.kv_begin;
    const float share = 1.0F / static_cast<float>(config.n_kv_heads);
    const Upload upload(device, stream_);
    upload.operator()<float>(shares_, [&](int64_t head, int64_t) { return head < own ? 0.0F : share; });
    upload.operator()<int32_t>(nulls_, [](int64_t, int64_t) { return 0; });
    upload.operator()<int32_t>(owners_, [&](int64_t row, int64_t) { return static_cast<int32_t>(row / kv_heads_); });
}

void HeadMean::spread(Kernels& op, const Tensor& weights) {
    const int64_t owners = weights.dim(0), n = weights.dim(2);
    check(weights.dim(1) == kv_heads_ && owners * n <= most_ && owners * kv_heads_ <= owners_.rows(),
          "mean of heads: weights {} of {} heads, at most {} elements each", weights.shape(), kv_heads_, most_);
    const Tensor sums(sums_.data(), DType::kF32, {owners, 1, n});
    // Each KV head counts as a query head that reads a single KV head.
    op.pool_weights(sums, weights, {}, {}, nulls_, shares_, {});
    comm_.turn(stream_);
    comm_.all_reduce(stream_, Tensor(sums.data(), DType::kF32, {owners * n}));
    op.gather_rows(Tensor(weights.data(), DType::kF32, {owners * kv_heads_, n}),
                   Tensor(sums.data(), DType::kF32, {owners, n}), owners_.first_rows(owners * kv_heads_));
}

}  // namespace trireme
