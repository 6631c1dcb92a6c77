#pragma once
/// How much of a text a retrieving level sees, and what that takes. Pure arithmetic.

#include <cstddef>
#include <cstdint>

#include "kernels/chunks.h"
#include "offload/view.h"
#include "runtime/memory_bytes.h"

namespace trireme {

struct RetrievalShape {
    static constexpr int64_t kRecent = 256;  // the last tokens, always seen: candidates then lie in complete tiles
    static constexpr int64_t kNever = 0;

    int64_t budget = 0;  // tokens in picked chunks, per owner layer and KV head; 0: nothing is retrieved
    int64_t chunk = 8;   // tokens; a divisor of kTileTokens
    int64_t every = 1;   // forwards of the full view from one choice to the next; kNever: chosen by the prompt alone
    int64_t generated = -1;     // tokens at most after the prompt; -1: to the end of the context
    int64_t queries = 1;        // whose mean chooses: of the last token, and of those kept before it
    int64_t query_columns = 0;  // of a layer's query, heads * head_dim; where several choose
    bool comes_back = false;  // the text is truncated to the prompt again: what the prompt chose is kept in host memory

    /// What is seen of a text of so many tokens.
    ChunkPick pick(int64_t tokens) const;
    /// Slots that it takes at most: with kNever, what is generated stays.
    int64_t slots(int64_t context) const;
    int64_t tiles(int64_t context) const { return tiles_for(slots(context)); }

    /// Bytes of the chosen tokens' tiles, and of the means of all chunks of the context, for all owners.
    size_t set_bytes(const KvShape& kv) const;
    size_t summary_bytes(const KvShape& kv) const;
    /// Of these, of what choosing needs, and of the prompt's choice: what a RetrievalSet takes.
    MemoryBytes memory(const KvShape& kv) const;

    // Shapes of what is allocated.
    int64_t chunks(const KvShape& kv) const { return kv.tiles_per_sequence() * (kTileTokens / chunk); }
    Shape means(const KvShape& kv) const { return {kv.layout.kv_heads, chunks(kv), kv.layout.head_dim}; }
    Shape by_chunk(const KvShape& kv) const { return {kv.layout.kv_heads, chunks(kv)}; }
    Shape table(const KvShape& kv) const { return {1, tiles(kv.context)}; }
    Shape all_tiles(const KvShape& kv) const {
        return {kv.owner_layers * tiles(kv.context) * static_cast<int64_t>(kv.layout.tile_bytes())};
    }
    static constexpr size_t kSent = 8;  // choices on their way to the device
};

}  // namespace trireme
