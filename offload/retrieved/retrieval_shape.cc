#include "offload/retrieved/retrieval_shape.h"

#include <algorithm>

#include "offload/kept_lists.h"
#include "offload/retrieved/query_history.h"
#include "runtime/buffer.h"

namespace trireme {

using DeviceArena = Arena<Space::kDevice>;
using HostArena = Arena<Space::kHost>;

ChunkPick RetrievalShape::pick(int64_t tokens) const {
    const int64_t candidates = std::max(int64_t{0}, tokens - kRecent) / chunk;
    const int64_t picked = std::min(candidates, std::max(int64_t{1}, budget / chunk));
    return {static_cast<int32_t>(candidates), static_cast<int32_t>(picked), static_cast<int32_t>(tokens)};
}

int64_t RetrievalShape::slots(int64_t context) const {
    // Room for a round between two selections, or for some hundred tokens without any (RetrievalSet::choose_again).
    const int64_t generates = generated < 0 ? context : std::min(context, generated + kMaxRows);
    const int64_t grows = every == kNever ? generates : std::max(every, int64_t{4}) * kMaxRows;
    return std::min(context, budget + kRecent + chunk + grows);
}

size_t RetrievalShape::set_bytes(const KvShape& kv) const {
    return budget == 0 ? 0 : DeviceArena::bytes_of(DType::kU8, all_tiles(kv));
}

size_t RetrievalShape::summary_bytes(const KvShape& kv) const {
    if (budget == 0) return 0;
    return static_cast<size_t>(kv.owner_layers) * DeviceArena::bytes_of(mean_type(kv.layout.k_type), means(kv));
}

MemoryBytes RetrievalShape::memory(const KvShape& kv) const {
    if (budget == 0) return {};
    const Shape pick_words{kChunkPickWords};
    MemoryBytes all = {.device = set_bytes(kv) + summary_bytes(kv) +
                                 static_cast<size_t>(kv.owner_layers) * DeviceArena::bytes_of(DType::kI64, table(kv)) +
                                 DeviceArena::bytes_of(DType::kI32, by_chunk(kv)) +
                                 DeviceArena::bytes_of(DType::kI64, by_chunk(kv)) +
                                 DeviceArena::bytes_of(DType::kI32, pick_words),
                       .host = kSent * HostArena::bytes_of(DType::kI32, pick_words)};
    if (recorded) all.host += HostArena::bytes_of(DType::kI32, selections(kv));
    if (comes_back) all.host += HostArena::bytes_of(DType::kU8, all_tiles(kv));
    if (queries > 1) all += QueryHistory::memory(kv.owner_layers, queries - 1, query_columns);
    return all + KeptLists::memory();
}

}  // namespace trireme
