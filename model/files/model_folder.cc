#include "model/files/model_folder.h"

#include <algorithm>
#include <span>
#include <vector>

#include "model/files/byte_source.h"
#include "model/files/expected_tensors.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/new_folder.h"
#include "model/layer_sharing.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr const char *kConfigFile = "config.json", *kWeightsFile = "model.safetensors";
/// All files that may be written; behind the first two, those that are copied.
constexpr const char* kFiles[] = {kConfigFile,
                                  kWeightsFile,
                                  "tokenizer.json",
                                  "tokenizer.model",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "chat_template.jinja",
                                  "generation_config.json"};
constexpr std::span kCopied = std::span(kFiles).subspan(2);

const char* safetensors_name(DType type) {
    return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}
const char* torch_name(DType type) {
    return type == DType::kF32 ? "float32" : type == DType::kF16 ? "float16" : "bfloat16";
}

/// What a config.json says of a model that has none.
Json config_json(const LlamaConfig& c, std::string_view what) {
    const RopeConfig& r = c.rope;
    require(r.factors.empty(), Exit::kData, "{}: rotary factors of single pairs cannot be said in a config.json", what);
    Json json = {{"model_type", "llama"},
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
    if (r.scaling == RopeScaling::kNone) return json;
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

/// The model's config, with the map. What an older notation has said goes.
Json with_map(Json json, const LlamaConfig& c, DType type) {
    for (const char* key : {"target_layer", "num_encoders", "num_trained_encoders", "train_kv", "dtype"})
        json.erase(key);
    json["torch_dtype"] = torch_name(type);
    if (c.layer_map == LayerMap::identity(c.n_layers) && !shares_layers(c.arch)) return json;
    const int64_t backward = std::min<int64_t>(2, c.passes);
    json["model_type"] = "lckv-llama";
    json["architectures"] = {"LCKVLlamaForCausalLM"};
    json["layer_types"] = c.layer_map.text();
    json["forward_passes"] = c.passes - backward;
    json["backward_passes"] = backward;
    json["force_nodiag"] = c.no_diagonal;
    if (c.sliding_window > 0) json["sliding_window"] = c.sliding_window;
    return json;
}

/// The tensors whose mean a tensor becomes: of a key or value of an owner those of all that read it, else itself.
std::vector<std::string> parts_of(const std::string& name, const LayerMap& map, bool average) {
    for (LayerIndex owner; average && owner.i < map.layers(); ++owner) {
        const std::string attention = fmt::format("model.layers.{}.self_attn.", owner);
        if (name != attention + "k_proj.weight" && name != attention + "v_proj.weight") continue;
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

/// Rows of tensors as a file has them.
class TensorWriter {
  public:
    TensorWriter(const WeightSource& source, NewFile& file, DType type, const std::function<void()>& proceed)
        : source_(source), file_(file), type_(type), proceed_(proceed) {}

    void write(const Shape& shape, const std::vector<std::string>& parts) {
        const int64_t rows = shape[0], cols = shape.rank() == 1 ? 1 : shape[1];
        const int64_t some = std::max<int64_t>(1, kPieceElements / cols);
        for (int64_t r = 0; r < rows; r += some) {
            proceed_();
            const int64_t n = std::min(some, rows - r);
            const Shape piece = shape.rank() == 1 ? Shape{n} : Shape{n, cols};
            sums_.assign(static_cast<size_t>(n * cols), 0.0);
            values_.resize(sums_.size());
            for (const std::string& part : parts) {
                source_.read(part, r, 0, HostTensor(values_.data(), DType::kF32, piece));
                for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(values_[i]);
            }
            for (size_t i = 0; i < sums_.size(); ++i) {
                values_[i] = static_cast<float>(sums_[i] / static_cast<double>(parts.size()));
            }
            put();
        }
    }

  private:
    void put() {
        if (type_ == DType::kF32) return file_.write(values_.data(), values_.size() * sizeof(float));
        rounded_.resize(values_.size());
        for (size_t i = 0; i < values_.size(); ++i) {
            rounded_[i] = type_ == DType::kF16 ? f16(values_[i]).bits : bf16(values_[i]).bits;
        }
        file_.write(rounded_.data(), rounded_.size() * sizeof(uint16_t));
    }

    const WeightSource& source_;
    NewFile& file_;
    DType type_;
    const std::function<void()>& proceed_;
    std::vector<float> values_;
    std::vector<double> sums_;
    std::vector<uint16_t> rounded_;
};

void write_tensors(const WeightSource& source, const LlamaConfig& config, bool average, const fs::path& path,
                   const std::function<void()>& proceed) {
    const DType type = source.natural_dtype();
    const std::vector<ExpectedTensor> wanted = expected_tensors(config);
    std::vector<std::vector<std::string>> parts;
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    size_t end = 0;
    for (const ExpectedTensor& t : wanted) {
        parts.push_back(parts_of(t.name, config.layer_map, average));
        for (const std::string& part : parts.back()) {
            require(std::ranges::find(source.tensors(), part, &TensorInfo::name) != source.tensors().end(), Exit::kData,
                    "{}: the model has no tensor {}, which the map asks for; want an ordinary checkpoint", t.name,
                    part);
        }
        const size_t begin = end;
        end += static_cast<size_t>(t.shape.elements()) * size_of(type);
        std::vector<int64_t> dims;
        for (int i = 0; i < t.shape.rank(); ++i) dims.push_back(t.shape[i]);
        header[t.name] = {{"dtype", safetensors_name(type)}, {"shape", dims}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    uint64_t length = text.size();
    log::info("writing {} tensors, {:.1f} MB", wanted.size(), static_cast<double>(end) / 1e6);
    NewFile file(path);
    file.write(&length, sizeof length);
    file.write(text.data(), text.size());
    TensorWriter writer(source, file, type, proceed);
    for (size_t i = 0; i < wanted.size(); ++i) writer.write(wanted[i].shape, parts[i]);
    file.finish();
}

}  // namespace

void write_model_folder(const fs::path& from, const fs::path& to, std::string_view layer_map, bool average,
                        const std::function<void()>& proceed) {
    const std::unique_ptr<WeightSource> source = open_model(from);
    LlamaConfig config = source->config();
    if (!layer_map.empty()) set_layer_map(config, layer_map, "the layer map");
    const bool folder = has_entry(from, kConfigFile);
    const auto text_of = [&](const char* file, uint64_t most) { return read_text(*open_in_folder(from, file), most); };
    const Json json = folder ? parse_json(text_of(kConfigFile, limits::kConfigBytes), (from / kConfigFile).string())
                             : config_json(config, from.string());

    NewFolder out(to, kFiles);
    const auto write = [&](const char* name, const std::string& bytes) {
        NewFile file(out / name);
        file.write(bytes.data(), bytes.size());
        file.finish();
    };
    write_tensors(*source, config, average, out / kWeightsFile, proceed);
    write(kConfigFile, with_map(json, config, source->natural_dtype()).dump(2) + "\n");
    bool tokenizer = false;
    for (const char* name : kCopied) {
        if (!folder || !has_entry(from, name)) continue;
        write(name, text_of(name, limits::kTokenizerBytes));
        tokenizer = tokenizer || std::string_view(name).starts_with("tokenizer.");
    }
    proceed();
    out.finish();
    if (!tokenizer) log::warn("{}: has no tokenizer of its own; use it with --tokenizer", to.string());
}

}  // namespace trireme
