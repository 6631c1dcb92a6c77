#include "model/checkpoint/layer_map.h"

#include <algorithm>
#include <charconv>

#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {

LayerMap::LayerMap(std::vector<LayerIndex> sources, std::string_view what)
    : sources_(std::move(sources)), number_(sources_.size(), OwnerIndex(-1)) {
    for (LayerIndex l; l.i < layers(); ++l) {
        require(source(l).i >= 0 && source(l).i < layers(), Exit::kData,
                "{}: layer {} reads the keys and values of layer {}; want one from 0 to {}", what, l, source(l),
                layers() - 1);
        number_[source(l).at()] = OwnerIndex(0);
    }
    for (OwnerIndex& number : number_) {
        if (number.i == 0) number = OwnerIndex(owners_++);
    }
}

LayerMap LayerMap::identity(int64_t layers) {
    std::vector<LayerIndex> sources;
    for (LayerIndex l; l.i < layers; ++l) sources.push_back(l);
    return LayerMap(std::move(sources), "identity");
}

LayerMap LayerMap::identity(std::vector<bool> windowed) {
    LayerMap map = identity(static_cast<int64_t>(windowed.size()));
    if (std::ranges::find(windowed, true) != windowed.end()) map.windowed_ = std::move(windowed);
    return map;
}

LayerMap LayerMap::parse(std::string_view text, int64_t layers, std::string_view what) {
    std::vector<LayerIndex> sources;
    std::vector<bool> windowed;
    const char *at = text.data(), *const end = at + text.size();
    while (true) {
        uint64_t source = 0;
        const auto [next, error] = std::from_chars(at, end, source);
        require(error == std::errc() && source < static_cast<uint64_t>(layers), Exit::kData,
                "{}: '{}' has no layer from 0 to {} at character {}", what, shown(text), layers - 1, at - text.data());
        at = next;
        const bool window = at != end && *at == 's';
        if (window) ++at;
        uint64_t count = 1;
        if (at != end && *at == '*') {
            const auto [after, wrong] = std::from_chars(at + 1, end, count);
            require(wrong == std::errc() && count >= 1 && count <= static_cast<uint64_t>(layers), Exit::kData,
                    "{}: '{}' has no count from 1 to {} at character {}", what, shown(text), layers,
                    at + 1 - text.data());
            at = after;
        }
        sources.insert(sources.end(), count, LayerIndex(static_cast<int64_t>(source)));
        windowed.insert(windowed.end(), count, window);
        if (at == end) break;
        require(*at == '_', Exit::kData, "{}: '{}' has '{}' at character {}; want an underscore between layers", what,
                shown(text), shown(std::string_view(at, 1)), at - text.data());
        ++at;
    }
    require(static_cast<int64_t>(sources.size()) == layers, Exit::kData, "{}: '{}' is for {} layers, the model has {}",
            what, shown(text), sources.size(), layers);
    LayerMap map(std::move(sources), what);
    if (std::ranges::find(windowed, true) != windowed.end()) map.windowed_ = std::move(windowed);
    return map;
}

std::vector<OwnerIndex> LayerMap::reads() const {
    std::vector<OwnerIndex> all;
    for (LayerIndex l; l.i < layers(); ++l) all.push_back(reads(l));
    return all;
}

bool LayerMap::upward() const {
    for (LayerIndex l; l.i < layers(); ++l) {
        if (upward(l)) return true;
    }
    return false;
}

bool LayerMap::read_from_below(LayerIndex layer) const {
    for (LayerIndex l; l < layer; ++l) {
        if (source(l) == layer) return true;
    }
    return false;
}

LayerIndex LayerMap::highest_owner() const {
    return *std::ranges::max_element(sources_);
}

std::vector<LayerBlock> LayerMap::blocks() const {
    std::vector<LayerBlock> all;
    for (LayerIndex l; l.i < layers();) {
        const LayerIndex first = l;
        const bool iterated = upward(l);
        if (iterated) {
            for (LayerIndex last = source(l); l <= last; ++l) last = std::max(last, source(l));
        } else {
            while (l.i < layers() && !upward(l)) ++l;
        }
        all.push_back({first, l, iterated});
    }
    return all;
}

std::string LayerMap::text() const {
    std::string all;
    for (LayerIndex l; l.i < layers(); ++l) {
        all += fmt::format("{}{}{}", l.i > 0 ? "_" : "", source(l), windowed(l) ? "s" : "");
    }
    return all;
}

}  // namespace trireme
