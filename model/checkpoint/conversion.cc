#include "model/checkpoint/conversion.h"

#include <algorithm>
#include <cmath>

#include "model/checkpoint/expected_tensors.h"
#include "model/checkpoint/layer_sharing.h"
#include "model/checkpoint/random_weights.h"
#include "model/checkpoint/store_model.h"
#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"
#include "model/files/gguf_parts.h"
#include "model/files/limits.h"
#include "model/files/quantise.h"
#include "model/files/tensor_values.h"
#include "runtime/error.h"
#include "runtime/for_all.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr const char* kConfigFile = "config.json";

const char* torch_name(DType type) {
    return type == DType::kF32 ? "float32" : type == DType::kF16 ? "float16" : "bfloat16";
}

/// Makes a config.json for a model that has none.
Json config_json_of(const LlamaConfig& c) {
    const RopeConfig& r = c.rope;
    Json json = {{"model_type", c.family->model_type},
                 {"architectures", {c.family->hf_class}},
                 {"hidden_size", c.dim},
                 {"intermediate_size", c.ffn_dim},
                 {"num_hidden_layers", c.n_layers},
                 {"num_attention_heads", c.n_heads},
                 {"num_key_value_heads", c.n_kv_heads},
                 {"head_dim", c.head_dim},
                 {"vocab_size", c.vocab},
                 {"max_position_embeddings", r.scaling == RopeScaling::kNone ? c.context : r.original_context},
                 {"rms_norm_eps", c.norm_eps},
                 {"rope_theta", r.theta},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", c.tied_embeddings},
                 {"eos_token_id", c.eos}};
    if (c.bos >= 0) json["bos_token_id"] = c.bos;
    if (c.o_bias) json["attention_bias"] = true;
    if (c.family->windows != Windows::kNone) {  // a missing key could mean a window
        json["sliding_window"] = c.sliding_window > 0 ? Json(c.sliding_window) : Json();
    }
    if (r.dim(c.head_dim) != c.head_dim) {
        json["partial_rotary_factor"] = std::nextafter(
            static_cast<double>(r.rotary_dim) / static_cast<double>(c.head_dim), 1.0);  // it is rounded down
    }
    if (r.scaling == RopeScaling::kNone) return json;
    if (r.scaling == RopeScaling::kLongrope) {
        json["max_position_embeddings"] = c.context;
        json["original_max_position_embeddings"] = r.original_context;
        json["rope_scaling"] = {{"rope_type", name_of(r.scaling)},
                                {"short_factor", r.short_factors},
                                {"long_factor", r.long_factors},
                                {"attention_factor", r.attention_factor}};
        return json;
    }
    Json& scaling = json["rope_scaling"] = {{"rope_type", name_of(r.scaling)}, {"factor", r.factor}};
    if (r.scaling == RopeScaling::kYarn || r.scaling == RopeScaling::kLlama3) {
        scaling["original_max_position_embeddings"] = r.original_context;
    }
    if (r.scaling == RopeScaling::kYarn) {
        scaling["beta_fast"] = r.beta_fast;
        scaling["beta_slow"] = r.beta_slow;
        scaling["truncate"] = r.truncate;
        if (r.attention_factor != 0) scaling["attention_factor"] = r.attention_factor;
    } else if (r.scaling == RopeScaling::kLlama3) {
        scaling["low_freq_factor"] = r.low_freq_factor;
        scaling["high_freq_factor"] = r.high_freq_factor;
    }
    return json;
}

/// Returns the model's config.json with the layer map, and without the keys of older notations. `own`: the map that the
/// model's config.json implies.
Json with_map(Json json, const LlamaConfig& c, const LayerMap& own, DType type) {
    for (const char* key : {"target_layer", "num_encoders", "num_trained_encoders", "train_kv", "dtype",
                            "quantization_config", "compression_config"})
        json.erase(key);
    json["torch_dtype"] = torch_name(type);
    json["tie_word_embeddings"] = c.tied_embeddings;  // config.json may differ
    if (!c.family->layer_map && (c.layer_map.is_identity() || c.layer_map == own)) return json;
    require(!c.family->qk_norm && !c.family->fused && c.family->biases != Biases::kQkv, Exit::kUsage,
            "a layer map: config.json can state one for llama and mistral models, not for {}", c.family->model_type);
    const int64_t backward = std::min<int64_t>(2, c.passes);
    json["model_type"] = "lckv-llama";
    json["architectures"] = {"LCKVLlamaForCausalLM"};
    json["layer_types"] = c.layer_map.text();
    json["forward_passes"] = c.passes - backward;
    json["backward_passes"] = backward;
    json["force_nodiag"] = c.no_diagonal;
    if (c.o_bias) json["attention_bias"] = true;
    if (c.sliding_window > 0) json["sliding_window"] = c.sliding_window;
    return json;
}

/// Returns the tensors whose mean a tensor becomes: for K/V weights and biases of an owner those of its readers, else
/// itself.
std::vector<std::string> parts_of(const std::string& name, const LayerMap& map, bool average) {
    for (LayerIndex owner; average && owner.i < map.layers(); ++owner) {
        const std::string attention = fmt::format("model.layers.{}.self_attn.", owner);
        if (!name.starts_with(attention + "k_proj.") && !name.starts_with(attention + "v_proj.")) continue;
        std::vector<std::string> parts;
        for (LayerIndex l; l.i < map.layers(); ++l) {
            if (map.source(l) == owner) {
                parts.push_back(fmt::format("model.layers.{}.self_attn.{}", l, name.substr(attention.size())));
            }
        }
        return parts;
    }
    return {name};
}

/// Returns a file of the model's folder or store by its name; nothing if there is none.
std::optional<std::string> text_of(const fs::path& model, const char* name, uint64_t most) {
    if (is_store_file(model)) return StoredFiles(model).text(name, most);
    if (!has_entry(model, kConfigFile) || !has_entry(model, name)) return {};
    return read_text(*open_in_folder(model, name), most);
}

}  // namespace

Conversion::Conversion(const fs::path& from, ConversionWish wish)
    : from_(wish.random && from.filename() == kConfigFile ? from.parent_path() : from),
      wish_(std::move(wish)),
      source_(wish_.random ? random_weights(open_config(from), *wish_.random) : open_model(from)),
      config_(source_->config()) {
    for (const TensorInfo& t : source_->tensors()) {
        if (wish_.quantise == nullptr) break;
        require(!is_quantised(t.type), Exit::kUsage,
                "--quantise {}: {} has {} in {}; quantised weights are not quantised again, want a model with f32, f16 "
                "or bf16 weights",
                wish_.quantise->name, from.string(), t.name, name_of(t.type));
    }
    if (!wish_.layer_map.empty()) set_layer_map(config_, wish_.layer_map, "the layer map");
    for (const ExpectedTensor& t : expected_tensors(config_)) {
        Tensor tensor = {.name = t.name,
                         .shape = t.shape,
                         .parts = parts_of(t.name, config_.layer_map, wish_.average),
                         .source = StoredType::kF16,
                         .written = StoredType::kF16};
        for (const std::string& part : tensor.parts) {
            require(std::ranges::find(source_->tensors(), part, &TensorInfo::name) != source_->tensors().end(),
                    Exit::kData, "{}: the model has no tensor {}, which the map requires; want an ordinary checkpoint",
                    t.name, part);
        }
        tensor.source = source_->info(tensor.parts.front()).type;
        tensor.written = written(tensor);
        tensors_.push_back(std::move(tensor));
    }
}

std::string Conversion::config_json() const {
    const std::optional<std::string> own = text_of(from_, kConfigFile, limits::kConfigBytes);
    const Json json = own ? parse_json(*own, from_.string(), {.by_python = true}) : config_json_of(config_);
    return with_map(json, config_, source_->config().layer_map, main_type()).dump(2) + "\n";
}

std::optional<std::string> Conversion::file(const char* name, uint64_t most) const {
    return text_of(from_, name, most);
}

bool Conversion::from_gguf() const {
    return !find_gguf(from_).empty() || (is_store_file(from_) && file(kStoredGguf, limits::kTokenizerBytes));
}

std::vector<ModelFile> Conversion::files() const {
    std::vector<ModelFile> all;
    const auto add = [&](const char* name) {
        std::optional<std::string> text = file(name, limits::kTokenizerBytes);
        if (text) all.push_back({name, *std::move(text)});
    };
    for (const char* name : kCopiedFiles) add(name);
    if (is_store_file(from_)) add(kStoredGguf);
    if (const fs::path gguf = find_gguf(from_); !gguf.empty()) {
        all.push_back({kStoredGguf, gguf_metadata_alone(*open_file(gguf))});
    }
    return all;
}

void Conversion::mean(const Tensor& tensor, int64_t row, int64_t col0, const HostTensor& out) const {
    const auto n = static_cast<size_t>(out.shape().elements());
    std::vector<float> values(n);
    std::vector<double> sums(n);
    for (const std::string& part : tensor.parts) {
        source_->read(part, row, col0, HostTensor(values.data(), DType::kF32, out.shape()));
        for (size_t i = 0; i < n; ++i) sums[i] += static_cast<double>(values[i]);
    }
    const auto parts = static_cast<double>(tensor.parts.size());
    for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(sums[i] / parts);
    const int64_t index = tensor.shape.rank() == 1 ? row : row * tensor.shape[1] + col0;
    const std::string file = from_.string();
    convert_finite({file, tensor.name}, DType::kF32, values.data(), out.dtype(), out.data(), static_cast<int64_t>(n),
                   index);
}

void Conversion::values(const Tensor& tensor, int64_t row, int64_t col0, const HostTensor& out) const {
    if (tensor.parts.size() == 1) {
        source_->read(tensor.parts.front(), row, col0, out);
    } else {
        mean(tensor, row, col0, out);
    }
}

void Conversion::blocks(const Tensor& tensor, int64_t row, int64_t rows, int64_t col0, int64_t cols, StoredType type,
                        std::span<std::byte> out) const {
    if (tensor.parts.size() == 1 && tensor.source == type) {
        return source_->read_blocks(tensor.parts.front(), row, rows, col0, out);
    }
    const size_t row_bytes = out.size() / static_cast<size_t>(rows);
    std::vector<float> plain(static_cast<size_t>(rows * cols));
    values(tensor, row, col0, HostTensor(plain.data(), DType::kF32, {rows, cols}));
    constexpr size_t kMostThreads = 256;
    for_all(static_cast<size_t>(rows), kMostThreads, [&](size_t r) {
        const float* const of_row = plain.data() + r * static_cast<size_t>(cols);
        require(quantise(type, of_row, cols, out.data() + r * row_bytes), Exit::kConfig,
                "{}: tensor '{}': values of row {} are too large for {}, whose scales are f16; want --dtype bf16 or "
                "f32",
                from_.string(), tensor.name, row + static_cast<int64_t>(r), name_of(type));
    });
}

void Conversion::for_pieces(const Tensor& tensor, int64_t col0, int64_t cols, StoredType type,
                            const std::function<void(std::span<std::byte>)>& body, int64_t together) const {
    const BlockLayout layout = layout_of(type);
    const int64_t rows = tensor.shape[0], fit = std::max<int64_t>(1, kPieceElements / cols);
    const int64_t some = (fit + together - 1) / together * together;
    const size_t row_bytes = static_cast<size_t>(cols / layout.elements) * layout.bytes;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(rows, some)) * row_bytes);
    for (int64_t r = 0; r < rows; r += some) {
        const int64_t n = std::min(some, rows - r);
        const std::span<std::byte> piece = std::span(bytes).first(static_cast<size_t>(n) * row_bytes);
        if (is_quantised(type)) {
            blocks(tensor, r, n, col0, cols, type, piece);
        } else {
            values(tensor, r, col0,
                   HostTensor(piece.data(), plain_dtype(type), tensor.shape.rank() == 1 ? Shape{n} : Shape{n, cols}));
        }
        body(piece);
    }
}

StoredType Conversion::written(const Tensor& tensor) const {
    if (tensor.shape.rank() == 1) return is_quantised(tensor.source) ? StoredType::kF16 : tensor.source;
    if (wish_.quantise != nullptr) return type_in(*wish_.quantise, config_, tensor.name, tensor.shape[1]);
    if (wish_.dtype) return stored_as(*wish_.dtype);
    return is_quantised(tensor.source) && tensor.parts.size() > 1 ? StoredType::kF16 : tensor.source;
}

}  // namespace trireme
