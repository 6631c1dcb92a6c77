#include "launch/run/snapshot/tiles.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "kernels/key_order.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// Bytes of one head's keys, or values, in a tile.
size_t head_bytes(const KvLayout& layout, DType type) {
    return static_cast<size_t>(kTileTokens) * row_bytes(type, layout.head_dim);
}

/// Supplies a cache with its tiles, in the order in which it reads them.
class TilesFromStores final : public Archive {
  public:
    TilesFromStores(const KvShape& shape, std::string_view backend, int64_t tokens, int64_t first_head,
                    const std::vector<TilePart>& parts, const Buffer<Space::kHost>& staging)
        : layout_(shape.layout), backend_(backend), staging_(staging), first_head_(first_head) {
        const int64_t rows = shape.owner_layers * tiles_for(tokens);
        for (const TilePart& p : parts) {
            const auto wanted = [&](DType type) {
                return std::vector<int64_t>{rows, p.heads, kTileTokens, stored_columns(type, layout_.head_dim)};
            };
            const StoreSet& k_set = p.store->set("k", stored_type(layout_.k_type), 4);
            const StoreSet& v_set = p.store->set("v", stored_type(layout_.v_type), 4);
            for (const auto& [set, what, type] :
                 {std::tuple{&k_set, "keys", layout_.k_type}, {&v_set, "values", layout_.v_type}}) {
                const std::vector<int64_t> need = wanted(type);
                require(set->shape == need, Exit::kData,
                        "{}: {} of {} tiles, {} heads, {} a row, where {} tiles, {} heads, {} a row were expected",
                        p.store->name(), what, set->shape[0], set->shape[1], set->shape[3], need[0], need[1], need[3]);
            }
            sources_.push_back({.part = p, .k = {*p.store, k_set}, .v = {*p.store, v_set}});
        }
        for (int64_t h = 0; h < layout_.kv_heads; ++h) {
            const auto there = std::ranges::find_if(sources_, [&](const Source& s) {
                const int64_t in = first_head + h - s.part.first_head;
                return in >= 0 && in < s.part.heads;
            });
            require(there != sources_.end(), Exit::kData, "{}: KV head {} is in none of the snapshot's files", where(),
                    first_head + h);
            of_head_.push_back(static_cast<size_t>(there - sources_.begin()));
        }
    }
    bool loads() const override { return true; }
    void memory(Stream& stream, const Tensor& tile) override {
        const HostTensor from = staging_.tensor(DType::kU8, tile.shape());
        auto* const to = static_cast<std::byte*>(from.data());
        const size_t k = head_bytes(layout_, layout_.k_type), v = head_bytes(layout_, layout_.v_type);
        for (int64_t h = 0; h < layout_.kv_heads; ++h) {
            Source& s = sources_[of_head_[index(h)]];
            const auto in = static_cast<size_t>(first_head_ + h - s.part.first_head), here = static_cast<size_t>(h);
            keys_of_rows(backend_, layout_.k_type, layout_.head_dim, s.k.row(next_) + in * k, to + here * k);
            std::memcpy(to + layout_.k_bytes() + here * v, s.v.row(next_) + in * v, v);
        }
        stream.copy(tile, from, "snapshot");
        stream.synchronize();
        ++next_;
    }
    void memory(Stream&, const HostTensor&) override { check(false, "tiles are filled on the device"); }
    void produce(size_t, std::function<void(void*)>) override { check(false, "tiles are filled on the device"); }

  protected:
    void bytes(std::span<std::byte>) override { check(false, "tiles have no values"); }
    uint64_t left() const override { return 0; }
    std::string_view where() const override {
        if (sources_.empty()) return "the snapshot";
        return sources_[0].part.store->name();
    }

  private:
    struct Source {
        TilePart part;
        StoreRows k, v;
    };

    KvLayout layout_;
    std::string_view backend_;
    const Buffer<Space::kHost>& staging_;
    int64_t first_head_;
    std::vector<Source> sources_;
    std::vector<size_t> of_head_;  // [KV heads] index into sources_
    int64_t next_ = 0;
};

}  // namespace

std::vector<StoreSet> tile_sets(const KvShape& s, int64_t tokens) {
    const KvLayout& l = s.layout;
    const auto set = [&](const char* name, DType type) {
        return StoreSet{
            .name = name,
            .type = stored_type(type),
            .shape = {s.owner_layers * tiles_for(tokens), l.kv_heads, kTileTokens, stored_columns(type, l.head_dim)}};
    };
    return {set("k", l.k_type), set("v", l.v_type)};
}

size_t tile_staging_bytes(const KvShape& shape) {
    return std::max(size_t{4} << 20, shape.layout.tile_bytes());
}

void write_tiles(FullCache& cache, std::string_view backend, StoreWriter& writer, size_t first,
                 const Buffer<Space::kHost>& staging) {
    ArchiveToStore tiles;
    cache.tiles(tiles, cache.length(0));
    const KvLayout& l = cache.shape().layout;
    const size_t k = l.k_bytes(), head = head_bytes(l, l.k_type);
    std::vector<std::byte> keys(k);
    tiles.for_pieces(staging, [&](std::span<const std::byte> tile) {
        for (size_t at = 0; at < k; at += head) {
            rows_of_keys(backend, l.k_type, l.head_dim, tile.data() + at, keys.data() + at);
        }
        writer.append(first, keys);
        writer.append(first + 1, tile.subspan(k));
    });
}

void read_tiles(FullCache& cache, std::string_view backend, int64_t tokens, int64_t first_head,
                const std::vector<TilePart>& parts, const Buffer<Space::kHost>& staging) {
    TilesFromStores tiles(cache.shape(), backend, tokens, first_head, parts, staging);
    cache.tiles(tiles, tokens);
}

}  // namespace trireme
