// Layer maps as text: --layer-map, and 'layer_types' of every model type that has them. The first byte is the number of
// layers minus one. The second one is 'target_layer'; its lowest bits are 'sliding_window'. The rest is the text.

#include "model/checkpoint/layer_sharing.h"
#include "tests/fuzz/try_layer_map.h"

using namespace trireme;

namespace {

LlamaConfig config(const char* type, int64_t layers, int64_t second, std::string_view text) {
    const Json json = {{"model_type", type},
                       {"num_hidden_layers", layers},
                       {"hidden_size", 64},
                       {"num_attention_heads", 4},
                       {"intermediate_size", 24},
                       {"vocab_size", 12},
                       {"layer_types", std::string(text)},
                       {"target_layer", second},
                       {"sliding_window", second & 7}};
    return parse_config(json, "config.json");
}

/// Checks the meaning of that type's notation, layer by layer.
void expect_meaning(const LlamaConfig& c, std::string_view text, int64_t target) {
    const LayerMap& map = c.layer_map;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        const LayerIndex source = map.source(l);
        if (c.family->model_type == "cla-llama")
            fuzz::expect(source <= l && map.source(source) == source, "CLA that reads upward");
        if (c.family->model_type == "opt-llama") {
            fuzz::expect(source == l || source.i == (target < 0 ? target + map.layers() : target),
                         "a layer that reads neither itself nor the target");
        }
    }
    if (c.family->model_type == "lckv-llama" || c.family->model_type == "group-opt-llama") {
        fuzz::expect(text.empty() ? map == LayerMap::identity(map.layers())
                                  : map == LayerMap::parse(text, map.layers(), "the text"),
                     "a map that is not its text");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const int64_t layers = int64_t{data[0]} + 1, second = static_cast<int8_t>(data[1]);
    const std::string_view text = fuzz::text_of(data + 2, size - 2);
    fuzz::run([&] { fuzz::expect_sound(LayerMap::parse(text, layers, "a text")); });
    for (const char* type : {"lckv-llama", "opt-llama", "cla-llama", "group-opt-llama"}) {
        fuzz::run([&] {
            const LlamaConfig c = config(type, layers, second, text);
            fuzz::expect_sound(c.layer_map);
            expect_meaning(c, text, second);
        });
    }
    return fuzz::run([&] {
        LlamaConfig c = config("llama", layers, second, "");
        set_layer_map(c, text, "--layer-map");
        fuzz::expect_sound(c.layer_map);
    });
}
