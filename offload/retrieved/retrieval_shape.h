#pragma once
/// RetrievalShape: parameters of retrieval (--retrieval-*, --reselect), the number of tokens that a RetrievalSet holds,
/// and their memory. Pure arithmetic.

#include <cstddef>
#include <cstdint>

#include "kernels/chunks.h"
#include "offload/cache.h"
#include "runtime/memory_bytes.h"

namespace trireme {

struct RetrievalShape {
    static constexpr int64_t kRecent = 256;  // the last tokens, always seen: candidates are then in complete tiles
    static constexpr int64_t kNever = 0;

    int64_t budget = 0;  // tokens in selected chunks, per owner layer and KV head; 0: nothing is retrieved
    int64_t chunk = 8;   // tokens; a divisor of kTileTokens
    int64_t every = 1;   // forwards of the full cache from one selection to the next; kNever: only the prompt selects
    int64_t generated = -1;     // the most tokens after the prompt; -1: to the end of the context
    int64_t queries = 1;        // queries whose mean selects: the last token's, and those of the tokens before it
    int64_t query_columns = 0;  // elements of a layer's query on this rank, heads * head_dim; read if queries > 1
    bool recorded = false;      // each selection is copied to host memory, for dumps
    bool comes_back = false;    // the sequence may be truncated to the prompt: host memory keeps what it selected

    /// The selection in a sequence of `tokens` tokens.
    ChunkPick pick(int64_t tokens) const;
    /// The most slots that a selection and the tokens after it take. With kNever, all generated tokens are held.
    int64_t slots(int64_t context) const;
    int64_t tiles(int64_t context) const { return tiles_for(slots(context)); }

    /// Bytes of the set's tiles, for all owners.
    size_t set_bytes(const KvShape& kv) const;
    /// Bytes of the mean keys of all chunks of the context, for all owners.
    size_t summary_bytes(const KvShape& kv) const;
    /// The memory of a RetrievalSet: set_bytes, summary_bytes, scratch for selecting, and the prompt's selection.
    MemoryBytes memory(const KvShape& kv) const;

    // Shapes of the allocated tensors.
    int64_t chunks(const KvShape& kv) const { return kv.tiles_per_sequence() * (kTileTokens / chunk); }
    Shape means(const KvShape& kv) const { return {kv.layout.kv_heads, chunks(kv), kv.layout.head_dim}; }
    Shape selections(const KvShape& kv) const { return {kv.owner_layers, kv.layout.kv_heads, chunks(kv)}; }
    Shape by_chunk(const KvShape& kv) const { return {kv.layout.kv_heads, chunks(kv)}; }
    Shape table(const KvShape& kv) const { return {1, tiles(kv.context)}; }
    Shape all_tiles(const KvShape& kv) const {
        return {kv.owner_layers * tiles(kv.context) * static_cast<int64_t>(kv.layout.tile_bytes())};
    }
    static constexpr size_t kSent = 8;  // selections in flight to the device
};

}  // namespace trireme
