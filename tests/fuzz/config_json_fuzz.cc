// config.json: an accepted one respects the caps, and gives finite RoPE tables and a sound layer map.

#include <cmath>

#include "model/checkpoint/config.h"
#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/quantisation.h"
#include "tests/fuzz/try_layer_map.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const Json json = parse_json(fuzz::text_of(data, size), "config.json");
        fuzz::run([&] { read_quantisation(json, "config.json"); });
        LlamaConfig config = parse_config(json, "config.json");
        apply_generation_config(config, json, "config.json");
        for (const int64_t length : {int64_t{1}, config.context}) {
            const RopeTable table = rope_table(config.rope, config.head_dim, length);
            fuzz::expect(std::isfinite(table.attention_scale), "an attention scale that is not finite");
            for (const float f : table.inv_freq) fuzz::expect(std::isfinite(f) && f >= 0, "a bad frequency");
        }
        fuzz::expect(config.layer_map.layers() == config.n_layers && config.passes > 0, "no map, or no passes");
        fuzz::expect_sound(config.layer_map);
        fuzz::expect(!expected_tensors(config).empty(), "a model without tensors");
        for (const ExpectedTensor& t : expected_tensors(config)) {
            fuzz::expect(t.shape.elements() > 0 && t.shape.elements() < int64_t{1} << 41, "an absurd tensor");
        }
    });
}
