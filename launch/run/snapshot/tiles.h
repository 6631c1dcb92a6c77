#pragma once
/// The tiles of a full view in snapshots: data sets "k" and "v", [owners * tiles, KV heads, 256, head_dim], owner by
/// owner; keys are rows there, whatever order a backend keeps them in (kernels/key_order.h). Each rank writes the heads
/// that it holds; a run with another number of ranks takes its heads from the files of several.

#include <memory>
#include <string_view>
#include <vector>

#include "model/files/store/archive.h"
#include "offload/full_view.h"

namespace trireme {

/// "k" and "v", where so many tokens are there.
std::vector<StoreSet> tile_sets(const KvShape& shape, int64_t tokens);
/// Host memory that a tile goes through.
size_t tile_staging_bytes(const KvShape& shape);
/// Writes them as numbers `first` and `first` + 1 of the writer's sets. `staging` as tile_staging_bytes() says.
void write_tiles(FullView& view, std::string_view backend, StoreWriter& writer, size_t first,
                 const Buffer<Space::kHost>& staging);

/// A rank's file, and its heads.
struct TilePart {
    const StoreReader* store = nullptr;
    int64_t first_head = 0, heads = 0;
};
/// Fills the view with `tokens` tokens: its KV heads are the model's from `first_head` on. Errors: Exit::kData where
/// the sets have another shape, or no part has a head.
void read_tiles(FullView& view, std::string_view backend, int64_t tokens, int64_t first_head,
                const std::vector<TilePart>& parts, const Buffer<Space::kHost>& staging);

}  // namespace trireme
