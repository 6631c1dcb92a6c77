#include "model/checkpoint/layer_sharing.h"

#include <algorithm>
#include <charconv>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr int64_t kForwardPasses = 7, kBackwardPasses = 2;  // the published code's defaults
constexpr int64_t kWindow = 4096;

/// The older code's notation: a type for each layer.
std::vector<int> read_types(std::string_view text, int64_t layers, std::string_view what) {
    std::vector<int> types;
    for (size_t at = 0; at <= text.size(); at += 2) {
        const bool good =
            at < text.size() && text[at] >= '0' && text[at] <= '2' && (at + 1 == text.size() || text[at + 1] == '_');
        require(good, Exit::kData, "{}: 'layer_types' is '{}'; want types 0, 1 or 2 with underscores between", what,
                shown(text));
        types.push_back(text[at] - '0');
        if (at + 1 == text.size()) break;
    }
    require(static_cast<int64_t>(types.size()) == layers, Exit::kData,
            "{}: 'layer_types' is '{}', {} layers; the model has {}", what, shown(text), types.size(), layers);
    return types;
}

/// opt-llama: 0 reads itself, 1 the target, 2 is the target.
LayerMap read_opt(const std::vector<int>& types, int64_t target, std::string_view what) {
    const auto layers = static_cast<int64_t>(types.size());
    require(target >= -layers && target < layers, Exit::kData,
            "{}: 'target_layer' is {}; want one of the model's {} layers, counted from the end where negative", what,
            target, layers);
    const LayerIndex wanted(target < 0 ? target + layers : target);
    const bool shared = std::ranges::find(types, 1) != types.end();
    require(!shared || types[wanted.at()] != 1, Exit::kData,
            "{}: layers read the target, layer {}, which has type 1: no keys and values; want 2", what, wanted);
    std::vector<LayerIndex> sources;
    for (LayerIndex l; l.i < layers; ++l) {
        require(types[l.at()] != 2 || l == wanted, Exit::kData,
                "{}: layer {} is of type 2, the target; 'target_layer' says {}", what, l, wanted);
        sources.push_back(types[l.at()] == 1 ? wanted : l);
    }
    return LayerMap(std::move(sources), what);
}

/// cla-llama: 1 reads the nearest lower layer of another type.
LayerMap read_cla(const std::vector<int>& types, std::string_view what) {
    require(types[0] != 1, Exit::kData, "{}: layer 0 is of type 1: it reads a lower layer, and there is none", what);
    std::vector<LayerIndex> sources;
    for (LayerIndex l; l.at() < types.size(); ++l) sources.push_back(types[l.at()] == 1 ? sources.back() : l);
    return LayerMap(std::move(sources), what);
}

}  // namespace

void read_sharing(LlamaConfig& c, const Keys& keys, std::string_view what) {
    const std::string_view type = c.family->model_type;
    const std::string types = keys.string("layer_types").value_or("");
    if (type == "lckv-llama") {
        if (!types.empty()) c.layer_map = LayerMap::parse(types, c.n_layers, what);
        const int64_t forward = keys.integer("forward_passes").value_or(kForwardPasses);
        const int64_t backward = keys.integer("backward_passes").value_or(kBackwardPasses);
        require(forward >= 0 && backward >= 0 && forward + backward >= 1 && forward <= limits::kContext &&
                    backward <= limits::kContext,
                Exit::kData, "{}: 'forward_passes' is {}, 'backward_passes' {}; want 1 to {} together", what, forward,
                backward, limits::kContext);
        c.passes = forward + backward;
        c.no_diagonal = keys.boolean("force_nodiag").value_or(false);
        c.sliding_window = keys.integer("sliding_window").value_or(kWindow);
        return;
    }
    const int64_t encoders = keys.integer("num_encoders").value_or(kForwardPasses + kBackwardPasses - 1);
    require(encoders >= 0 && encoders < limits::kContext, Exit::kData, "{}: 'num_encoders' is {}; want 0 to {}", what,
            encoders, limits::kContext - 1);
    c.passes = encoders + 1;
    c.no_diagonal = type != "cla-llama";  // that code masks the diagonal of every layer
    if (types.empty()) return;
    if (type == "group-opt-llama") {
        c.layer_map = LayerMap::parse(types, c.n_layers, what);
        c.sliding_window = keys.integer("sliding_window").value_or(kWindow);
    } else if (type == "opt-llama") {
        c.layer_map = read_opt(read_types(types, c.n_layers, what), keys.integer("target_layer").value_or(-1), what);
    } else {
        c.layer_map = read_cla(read_types(types, c.n_layers, what), what);
    }
}

void set_layer_map(LlamaConfig& c, std::string_view text, std::string_view what) {
    LayerMap map = LayerMap::parse(text, c.n_layers, what);
    if (map == c.layer_map) return;
    c.layer_map = std::move(map);
    c.passes = kForwardPasses + kBackwardPasses;
    c.no_diagonal = false;
    if (c.sliding_window == 0) c.sliding_window = kWindow;
    validate(c, what);
}

}  // namespace trireme
