#include "model/head_exchange.h"

#include "offload/upload.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

}  // namespace

bool HeadExchange::needed(const LlamaConfig& config, int ranks) {
    int64_t held = 0;
    for (int rank = 0; rank < ranks; ++rank) held += make_shard(config, rank, ranks).n_kv_heads;
    return held > config.n_kv_heads;
}

size_t HeadExchange::memory(int64_t kv_heads, int64_t most, int ranks) {
    const int64_t n = kv_heads * most;
    return 2 * DeviceArena::bytes_of(DType::kF32, {n}) + DeviceArena::bytes_of(DType::kF32, {ranks * n}) +
           DeviceArena::bytes_of(DType::kF32, {ranks}) + DeviceArena::bytes_of(DType::kI32, {ranks});
}

HeadExchange::HeadExchange(Device& device, Stream& stream, Comm& comm, const Shard& shard, int64_t kv_heads,
                           int64_t most, HeadPool pool)
    : stream_(stream),
      comm_(comm),
      shard_(shard),
      kv_heads_(kv_heads),
      most_(most),
      pool_(pool),
      device_(device, memory(kv_heads, most, shard.ranks)),
      zeros_(device_.take(DType::kF32, {kv_heads * most})),
      part_(device_.take(DType::kF32, {kv_heads * most})),
      gathered_(device_.take(DType::kF32, {shard.ranks * kv_heads * most})),
      ones_(device_.take(DType::kF32, {shard.ranks})),
      nulls_(device_.take(DType::kI32, {shard.ranks})) {
    const Upload upload(device, stream_);
    upload.operator()<float>(zeros_, [](int64_t, int64_t) { return 0.0F; });
    upload.operator()<float>(ones_, [](int64_t, int64_t) { return 1.0F; });
    upload.operator()<int32_t>(nulls_, [](int64_t, int64_t) { return 0; });
}

void HeadExchange::exchange(Kernels& op, const Tensor& weights) {
    const int64_t owners = weights.dim(0), mine = weights.dim(1), n = weights.dim(2);
    check(mine == shard_.n_kv_heads && owners * n <= most_,
          "exchange: weights {} of {} heads, at most {} elements each", weights.shape(), shard_.n_kv_heads, most_);
    const auto rows = [&](const Tensor& t, int64_t first, int64_t count) {
        return Tensor(static_cast<float*>(t.data()) + first * n, DType::kF32, {count * n});
    };
    const Tensor all(part_.data(), DType::kF32, {owners * kv_heads_ * n});
    stream_.copy(all, Tensor(zeros_.data(), DType::kF32, all.shape()));
    for (int64_t o = 0; o < owners; ++o) {
        stream_.copy(rows(part_, o * kv_heads_ + shard_.kv_begin, mine), rows(weights, o * mine, mine));
    }
    if (pool_ == HeadPool::kAdd) {
        comm_.turn(stream_);
        comm_.all_reduce(stream_, all);
    } else {
        // The largest over ranks: each rank counts as a query head that reads a single KV head.
        const int64_t elements = all.dim(0);
        const Tensor gathered(gathered_.data(), DType::kF32, {shard_.ranks, elements});
        comm_.turn(stream_);
        comm_.all_gather(stream_, gathered, all);
        op.pool_weights(Tensor(all.data(), DType::kF32, {1, 1, elements}),
                        Tensor(gathered.data(), DType::kF32, {1, shard_.ranks, elements}), {}, {}, nulls_, ones_,
                        {.by = pool_});
    }
    for (int64_t o = 0; o < owners; ++o) {
        stream_.copy(rows(weights, o * mine, mine), rows(part_, o * kv_heads_ + shard_.kv_begin, mine));
    }
}

}  // namespace trireme
