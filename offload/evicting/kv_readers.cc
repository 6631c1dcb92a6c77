#include "offload/evicting/kv_readers.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace trireme {

KvReaders::KvReaders(int64_t heads, std::vector<KvReader> layers, std::vector<int64_t> places)
    : heads_(heads), layers_(std::move(layers)), readers_(places.size()), places_(std::move(places)) {
    for (LayerIndex l; l.i < this->layers(); ++l) {
        const OwnerIndex owner = layers_[l.at()].owner;
        check(owner.i >= 0 && owner.i < owners(), "kv readers: layer {} reads owner {} of {}", l, owner, owners());
        numbers_.push_back(static_cast<int64_t>(readers_[owner.at()].size()));
        readers_[owner.at()].push_back(l);
    }
    for (OwnerIndex o; o.i < owners(); ++o) check(!of(o).empty(), "kv readers: no layer reads owner {}", o);
}

KvReaders KvReaders::own(int64_t heads, int64_t owners) {
    std::vector<KvReader> layers;
    for (OwnerIndex o; o.i < owners; ++o) layers.push_back({.owner = o});
    return {heads, std::move(layers), std::vector<int64_t>(static_cast<size_t>(owners), 0)};
}

bool KvReaders::any_strict() const {
    return std::ranges::any_of(layers_, [](const KvReader& r) { return r.strict; });
}

int64_t KvReaders::most() const {
    int64_t most = 0;
    for (const auto& layers : readers_) most = std::max(most, static_cast<int64_t>(layers.size()));
    return most;
}

int64_t KvReaders::places() const {
    return places_.empty() ? 0 : *std::ranges::max_element(places_) + 1;
}

}  // namespace trireme
