#include "model/checkpoint/safetensors_model.h"

#include <algorithm>
#include <map>
#include <optional>

#include "model/checkpoint/file_model.h"
#include "model/checkpoint/packed_matrix.h"
#include "model/files/byte_source.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/safetensors.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char *kEmbedTokens = "model.embed_tokens.weight", *kLmHead = "lm_head.weight";
constexpr const char* kIndex = "model.safetensors.index.json";

struct ShardFile {
    std::unique_ptr<ByteSource> source;
    SafetensorsHeader header;
};

std::optional<StoredType> stored_type(std::string_view dtype) {
    if (dtype == "F32") return StoredType::kF32;
    if (dtype == "F16") return StoredType::kF16;
    if (dtype == "BF16") return StoredType::kBF16;
    return {};
}

Json read_json(const fs::path& folder, const std::string& file, uint64_t limit) {
    const auto source = open_in_folder(folder, file);
    return parse_json(read_text(*source, limit), source->name(),
                      {.bytes = static_cast<size_t>(limit), .by_python = true});
}

/// Whether a tensor that is not needed may be ignored. Exporters leave rotary buffers in.
bool is_harmless(const std::string& name, const LlamaConfig& config) {
    return name.ends_with("rotary_emb.inv_freq") || (config.tied_embeddings && name == kLmHead) ||
           (!name.starts_with("model.") && !name.starts_with("lm_head."));
}

/// Whether these are K/V weights, biases or norms of a layer that reads another one's, as in an ordinary checkpoint
/// with a layer map.
bool is_of_no_owner(const std::string& name, const LlamaConfig& config) {
    for (LayerIndex l; l.i < config.n_layers; ++l) {
        const std::string attention = fmt::format("model.layers.{}.self_attn.", l);
        if (config.layer_map.owns(l) || !name.starts_with(attention)) continue;
        return name.starts_with(attention + "k_proj.") || name.starts_with(attention + "v_proj.") ||
               name == attention + "k_norm.weight";
    }
    return false;
}

Quantisation read_folder_quantisation(const fs::path& folder) {
    return read_quantisation(read_json(folder, "config.json", limits::kConfigBytes), (folder / "config.json").string());
}

class SafetensorsModel final : public FileModel {
  public:
    explicit SafetensorsModel(const fs::path& folder) : folder_(folder) {
        config_ = read_folder_config(folder);
        quantisation_ = read_folder_quantisation(folder);
        if (has_entry(folder, kSingle)) {
            for (const auto& [name, entry] : shard(kSingle).header) found_.emplace(name, kSingle);
        } else {
            read_index();
        }
        take_tensors();
    }

  private:
    const ShardFile& shard(const std::string& file) {
        const auto it = shards_.find(file);
        if (it != shards_.end()) return it->second;
        require(shards_.size() < limits::kShards, Exit::kData, "{}: more than {} shards", folder_.string(),
                limits::kShards);
        ShardFile s{open_in_folder(folder_, file), {}};
        s.header = read_safetensors_header(*s.source);
        return shards_.emplace(file, std::move(s)).first->second;
    }

    void read_index() {
        require(has_entry(folder_, kIndex), Exit::kNoInput,
                "{}: holds neither {} nor {}; pickled weights (.bin, .pt) are not read: save as safetensors",
                folder_.string(), kSingle, kIndex);
        const std::string what = (folder_ / kIndex).string();
        const Json index = read_json(folder_, kIndex, limits::kIndexBytes);
        require(index.is_object() && index.contains("weight_map") && index["weight_map"].is_object(), Exit::kData,
                "{}: no object 'weight_map'", what);
        const Json& map = index["weight_map"];
        require(map.size() <= limits::kTensors, Exit::kData, "{}: {} tensors, at most {} are read", what, map.size(),
                limits::kTensors);
        for (const auto& [name, file] : map.items()) {
            require(file.is_string(), Exit::kData, "{}: '{}' names no file", what, shown(name));
            found_.emplace(name, file.get<std::string>());
        }
    }

    /// As in transformers 5, embeddings are not tied, whatever config.json says, if there is a head with other values.
    void take_head() {
        if (!config_.tied_embeddings) return;
        const auto head = found_.find(kLmHead), embedding = found_.find(kEmbedTokens);
        if (head == found_.end() || embedding == found_.end()) return;
        try {
            const std::optional<StoredMatrix> a = matrix(kLmHead, head->second),
                                              b = matrix(kEmbedTokens, embedding->second);
            if (!a || !b || a->rows != b->rows || a->cols != b->cols || same_values(*a, *b)) return;
        } catch (const Error& e) {
            log::warn("{} cannot be read, the embedding is used in its place, as 'tie_word_embeddings' says: {}",
                      kLmHead, e.what());
            return;
        }
        config_.tied_embeddings = false;
        log::warn("{}: 'tie_word_embeddings' is true, but {} differs from {}; both are used, as they are stored",
                  folder_.string(), kLmHead, kEmbedTokens);
    }

    /// Returns nothing if it is no matrix of weights.
    std::optional<StoredMatrix> matrix(const std::string& name, const std::string& file) {
        const ShardFile& s = shard(file);
        const auto entry = s.header.find(name);
        if (entry == s.header.end() || entry->second.dims.size() != 2) return {};
        const SafetensorsEntry& e = entry->second;
        const auto type = stored_type(e.dtype);
        if (!type || e.dims[0] > static_cast<uint64_t>(limits::kVocab) ||
            e.dims[1] > static_cast<uint64_t>(limits::kDim))
            return {};
        return StoredMatrix{.source = s.source.get(),
                            .offset = e.offset,
                            .type = *type,
                            .rows = static_cast<int64_t>(e.dims[0]),
                            .cols = static_cast<int64_t>(e.dims[1])};
    }

    static bool same_values(const StoredMatrix& a, const StoredMatrix& b) {
        constexpr int64_t kRows = 64;
        std::vector<float> x(static_cast<size_t>(kRows * a.cols)), y(x.size());
        for (int64_t row = 0; row < a.rows; row += kRows) {
            const Shape block = {std::min(kRows, a.rows - row), a.cols};
            read_slice(a, kLmHead, row, 0, HostTensor(x.data(), DType::kF32, block));
            read_slice(b, kEmbedTokens, row, 0, HostTensor(y.data(), DType::kF32, block));
            if (x != y) return false;
        }
        return true;
    }

    /// Takes the parts of packed matrices out of found_, which receives the name of the matrix.
    void find_packed() {
        const std::vector<std::string_view> parts = packed_parts(quantisation_.as);
        if (parts.empty()) return refuse_unnamed();
        const std::string codes = fmt::format(".{}", parts[0]);
        std::vector<std::string> modules;
        for (const auto& [name, file] : found_) {
            if (!name.ends_with(codes)) continue;
            const std::string module = name.substr(0, name.size() - codes.size());
            const auto part = stored_part(name, file);
            if (quantisation_.as != PackedAs::kFP8 || (part && part->entry.dtype == "F8_E4M3"))
                modules.push_back(module);
        }
        for (const std::string& module : modules) {
            for (const std::string_view part : parts) {
                const auto it = found_.find(fmt::format("{}.{}", module, part));
                if (it != found_.end()) packed_.insert(found_.extract(it));
            }
            found_.emplace(module + ".weight", "");
            packed_sources_.emplace(module, nullptr);
        }
    }

    /// Old checkpoints have their options in another file.
    void refuse_unnamed() const {
        for (const auto& [name, file] : found_) {
            require(
                !name.ends_with(".qweight") && !name.ends_with(".weight_packed"), Exit::kData,
                "{}: '{}' is a packed matrix, but config.json has no 'quantization_config'; quantize_config.json and "
                "quant_config.json are not read: copy their options into config.json, with a quant_method",
                folder_.string(), shown(name));
        }
    }

    std::optional<PackedPart> stored_part(const std::string& name, const std::string& file) {
        const ShardFile& s = shard(file);
        const auto entry = s.header.find(name);
        if (entry == s.header.end()) return {};
        return PackedPart{s.source.get(), entry->second};
    }

    /// Scales of a quantised KV cache or of attention, and the biases of zeros that AutoGPTQ writes.
    bool is_unused_part(const std::string& name, const std::string& file) {
        if (quantisation_.as == PackedAs::kNone) return false;
        for (const std::string_view scale : {".k_scale", ".v_scale", ".kv_scale", ".q_scale", ".prob_scale"}) {
            if (name.ends_with(scale)) return true;
        }
        if (!name.ends_with("_proj.bias")) return false;
        const auto part = stored_part(name, file);
        if (!part || part->entry.bytes > limits::kDim * 4) return false;
        std::vector<std::byte> bytes(part->entry.bytes);
        part->source->read(part->entry.offset, bytes);
        return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{}; });
    }

    /// The blocks of a packed matrix, or null if it has none. Phi-3 has several tensors in one.
    const ByteSource* packed(const std::string& module, const Shape& shape, TensorProblems& problems) {
        std::unique_ptr<ByteSource>& source = packed_sources_[module];
        if (!source) {
            source = packed_matrix(
                quantisation_, module, shape,
                [&](std::string_view part) -> std::optional<PackedPart> {
                    const auto it = packed_.find(fmt::format("{}.{}", module, part));
                    if (it == packed_.end()) return {};
                    return stored_part(it->first, it->second);
                },
                problems);
        }
        return source.get();
    }

    void take_tensors() {
        take_head();
        find_packed();
        TensorProblems problems;
        take_expected(found_, in_safetensors, problems,
                      [this](const ExpectedTensor& want, const FileTensor& there, const std::string& file,
                             TensorProblems& report) { take(want, there, file, report); });
        int64_t shared = 0;
        for (const auto& [name, file] : found_) {
            if (is_of_no_owner(name, config_)) {
                ++shared;
            } else if (!is_harmless(name, config_) && !is_unused_part(name, file)) {
                problems.add(name, "nothing", "a tensor a model of this config does not have");
            } else {
                log::debug("{}: tensor '{}' is not used", folder_.string(), shown(name));
            }
        }
        problems.raise(folder_.string());
        if (shared > 0) {
            log::warn("{}: {} tensors of keys and values are not used: their layers read those of others ({})",
                      folder_.string(), shared, config_.layer_map.text());
        }
    }

    void take(const ExpectedTensor& want, const FileTensor& there, const std::string& file, TensorProblems& problems) {
        constexpr std::string_view kKind = ".weight";
        const std::string module = there.name.substr(0, there.name.size() - kKind.size());
        if (there.name.ends_with(kKind) && packed_sources_.contains(module)) {
            const ByteSource* blocks = packed(module, there.shape, problems);
            if (blocks == nullptr) return;
            return add_slice(want, {.source = blocks,
                                    .offset = 0,
                                    .type = packed_type(quantisation_.as),
                                    .rows = want.shape[0],
                                    .cols = want.shape[1],
                                    .first_row = there.row0});
        }
        const ShardFile& s = shard(file);
        const auto entry = s.header.find(there.name);
        if (entry == s.header.end()) {
            problems.add(there.name, fmt::format("{}", there.shape),
                         fmt::format("not in {}, where the index has it", shown(file)));
            return;
        }
        const SafetensorsEntry& e = entry->second;
        const auto type = stored_type(e.dtype);
        if (!problems.compare({there.name, there.shape}, type.has_value(), e.dtype, e.dims)) return;
        const bool vector = want.shape.rank() == 1;
        add_slice(want, {.source = s.source.get(),
                         .offset = e.offset,
                         .type = *type,
                         .rows = vector ? 1 : want.shape[0],
                         .cols = vector ? want.shape[0] : want.shape[1],
                         .first_row = there.row0});
    }

    fs::path folder_;
    std::map<std::string, ShardFile> shards_;
    std::map<std::string, std::string> found_;  // tensor -> file; those left after take_tensors() are not used
    Quantisation quantisation_;
    std::map<std::string, std::string> packed_;                          // parts of packed matrices -> file
    std::map<std::string, std::unique_ptr<ByteSource>> packed_sources_;  // by module
};

}  // namespace

LlamaConfig read_folder_config(const fs::path& folder) {
    const auto read = [&](const std::string& file) { return read_json(folder, file, limits::kConfigBytes); };
    LlamaConfig config = parse_config(read("config.json"), (folder / "config.json").string());
    if (has_entry(folder, "generation_config.json")) {
        apply_generation_config(config, read("generation_config.json"), (folder / "generation_config.json").string());
    }
    return config;
}

std::unique_ptr<WeightSource> open_safetensors_model(const fs::path& folder) {
    return std::make_unique<SafetensorsModel>(folder);
}

}  // namespace trireme
