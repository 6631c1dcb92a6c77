#include "model/files/gguf_model.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "model/files/expected_tensors.h"
#include "model/files/gguf_parts.h"
#include "model/files/shown.h"
#include "model/files/slice_reader.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOuter = {{
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kInLayer = {{
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
}};
constexpr std::string_view kFactors = "rope_freqs.weight";

/// model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight
std::string gguf_name(std::string_view name) {
    for (const auto& [hf, gguf] : kOuter) {
        if (name == hf) return std::string(gguf);
    }
    constexpr std::string_view kLayers = "model.layers.";
    const size_t dot = name.find('.', kLayers.size());
    for (const auto& [hf, gguf] : kInLayer) {
        if (name.substr(dot + 1) == hf) {
            return fmt::format("blk.{}.{}", name.substr(kLayers.size(), dot - kLayers.size()), gguf);
        }
    }
    fail(Exit::kInternal, "'{}' has no name in GGUF", name);
}

class GgufModel final : public WeightSource {
  public:
    explicit GgufModel(std::vector<std::unique_ptr<ByteSource>> parts) : parts_(std::move(parts)) {
        const GgufFile file = read_gguf_parts(parts_);
        const std::string& what = parts_.front()->name();
        config_ = gguf_config(file);

        std::map<std::string_view, const GgufTensor*> found;
        for (const GgufTensor& t : file.tensors) found.emplace(t.name, &t);
        TensorProblems problems;
        NaturalType natural;
        for (const ExpectedTensor& want : expected_tensors(config_)) {
            const auto it = found.find(gguf_name(want.name));
            if (it == found.end()) {
                problems.add(gguf_name(want.name), fmt::format("{}", want.shape), "missing");
                continue;
            }
            take(want, *it->second, problems, natural);
            found.erase(it);
        }
        if (const auto it = found.find(kFactors); it != found.end()) {
            take_factors(*it->second, problems);
            found.erase(it);
        }
        for (const auto& [name, tensor] : found) {
            if (name.ends_with(".attn_rot_embd.weight")) {  // old converters kept the rotary buffers
                log::debug("{}: tensor '{}' is not used", what, shown(name));
            } else {
                problems.add(name, "nothing", "a tensor a Llama of these keys does not have");
            }
        }
        problems.raise(what);
        natural_dtype_ = natural.get();
        validate(config_, what);
    }

  private:
    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        read_slice(stored_[tensor], tensors_[tensor].name, row0, col0, out);
    }

    int64_t do_rows_together(size_t tensor) const override {  // the rows of a head, if they are stored as pairs
        return std::max<int64_t>(1, stored_[tensor].paired_rows);
    }
    StoredMatrix matrix(const GgufTensor& t) const {
        const bool vector = t.dims.size() == 1;
        return {.source = parts_[t.part].get(),
                .offset = t.offset,
                .type = *t.type,
                .rows = vector ? 1 : static_cast<int64_t>(t.dims[0]),
                .cols = static_cast<int64_t>(t.dims.back())};
    }

    void take(const ExpectedTensor& want, const GgufTensor& t, TensorProblems& problems, NaturalType& natural) {
        const ExpectedTensor in_file{t.name, want.shape};
        if (!problems.compare(in_file, t.type.has_value(), t.type_name, t.dims)) return;
        StoredMatrix m = matrix(t);
        const bool rotated = want.name.ends_with("q_proj.weight") || want.name.ends_with("k_proj.weight");
        if (rotated) m.paired_rows = config_.head_dim;
        stored_.push_back(m);
        add_tensor({want.name, *t.type, want.shape});
        natural.add(*t.type, want.shape.elements());
    }

    void take_factors(const GgufTensor& t, TensorProblems& problems) {
        const ExpectedTensor want{t.name, Shape{config_.head_dim / 2}};
        if (!problems.compare(want, t.type == StoredType::kF32, t.type_name, t.dims)) return;
        config_.rope.factors.resize(static_cast<size_t>(config_.head_dim / 2));
        read_slice(matrix(t), t.name, 0, 0, HostTensor(config_.rope.factors.data(), DType::kF32, want.shape));
    }

    std::vector<std::unique_ptr<ByteSource>> parts_;
    std::vector<StoredMatrix> stored_;  // in the order of tensors_
};

}  // namespace

std::unique_ptr<WeightSource> open_gguf_model(std::vector<std::unique_ptr<ByteSource>> parts) {
    return std::make_unique<GgufModel>(std::move(parts));
}

std::unique_ptr<WeightSource> open_gguf_model(std::unique_ptr<ByteSource> source) {
    std::vector<std::unique_ptr<ByteSource>> one;
    one.push_back(std::move(source));
    return open_gguf_model(std::move(one));
}

}  // namespace trireme
