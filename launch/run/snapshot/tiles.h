#pragma once
/// Tiles of a full cache in snapshots: writes and reads data sets "k" and "v" [owners * tiles, KV heads, 256,
/// head_dim]. Tiles are in order of position, owner by owner. Keys are stored as rows, whatever layout a backend uses
/// (kernels/key_order.h). Each rank writes its own heads; a run with another number of ranks reads its heads from
/// several files.

#include <memory>
#include <string_view>
#include <vector>

#include "model/files/store/archive.h"
#include "offload/full/full_cache.h"

namespace trireme {

/// Describes the data sets "k" and "v" of this rank for `tokens` tokens.
std::vector<StoreSet> tile_sets(const KvShape& shape, int64_t tokens);
/// The bytes of the host buffer that tiles are copied through (`staging` below).
size_t tile_staging_bytes(const KvShape& shape);
/// Writes the cache's tiles as sets `first` (k) and `first` + 1 (v) of the writer. `backend`: of the cache's device,
/// which determines the layout of keys. Blocks until done.
void write_tiles(FullCache& cache, std::string_view backend, StoreWriter& writer, size_t first,
                 const Buffer<Space::kHost>& staging);

/// A rank's file (not owned), and the model's KV heads in it: [first_head, first_head + heads).
struct TilePart {
    const StoreReader* store = nullptr;
    int64_t first_head = 0, heads = 0;
};
/// Fills the cache with `tokens` tokens of the files `parts`. The cache's KV heads are the model's from `first_head`
/// on. Errors: Exit::kData if the sets have another shape, or a head is in none of the parts.
void read_tiles(FullCache& cache, std::string_view backend, int64_t tokens, int64_t first_head,
                const std::vector<TilePart>& parts, const Buffer<Space::kHost>& staging);

}  // namespace trireme
