#pragma once
/// Conversion: a model that is written in another form. It gives tensors piece by piece, the config and other files.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/weight_source.h"
#include "model/files/json.h"

namespace trireme {

struct ConversionWish {
    std::string layer_map = {};       // as LayerMap::parse reads it; empty: the model's own
    bool average = false;             // K/V weights of an owner are the mean over all layers that read it, as at the
                                      // start of LCKV's convert_pretrained.py; else they are its own
    std::optional<DType> dtype = {};  // type of the written tensors
};

/// A file of the model as bytes: config.json, a tokenizer's file, ...
struct ModelFile {
    std::string name;
    std::string bytes;
};

class Conversion {
  public:
    struct Tensor {
        std::string name;
        Shape shape;
        std::vector<std::string> parts;  // the tensors of the source whose mean it is, in layer order
        DType stored;                    // the first part's type; f16 if that is quantised
    };

    /// Opens the model at `from`. Errors: as open_model; Exit::kData for a layer map that does not fit this model, and
    /// for owners without weights.
    Conversion(const std::filesystem::path& from, ConversionWish wish);

    const LlamaConfig& config() const { return config_; }
    const std::vector<Tensor>& tensors() const { return tensors_; }
    /// The requested type, or that of most of the model's elements.
    DType main_type() const { return wish_.dtype.value_or(source_->natural_dtype()); }
    std::optional<DType> wished_type() const { return wish_.dtype; }
    /// A config.json that transformers reads, with the layer map. It lacks rope.factors, which no config.json can hold.
    std::string config_json() const;
    /// The model's other files that are in kCopiedFiles, and a GGUF file's metadata. Errors: Exit::kData for one that
    /// is too large.
    std::vector<ModelFile> files() const;

    /// Passes all rows of the columns [col0, col0 + cols) to `body` as `type`, some rows at a time, in order. A vector
    /// has one column. Errors: as WeightSource::read.
    void for_pieces(const Tensor& tensor, int64_t col0, int64_t cols, DType type,
                    const std::function<void(std::span<const std::byte>)>& body) const;

  private:
    void mean(const Tensor& tensor, int64_t row, int64_t col0, const HostTensor& out) const;

    std::filesystem::path from_;
    ConversionWish wish_;
    std::unique_ptr<WeightSource> source_;
    LlamaConfig config_;
    std::vector<Tensor> tensors_;
};

/// Files that are copied with config.json and weights.
inline constexpr const char* kCopiedFiles[] = {"tokenizer.json",          "tokenizer.model",   "tokenizer_config.json",
                                               "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                                               "generation_config.json"};

}  // namespace trireme
