#pragma once
/// A model on its way to another form: its tensors piece by piece, its config and the other files that it has.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/files/weight_source.h"

namespace trireme {

struct ConversionWish {
    std::string layer_map = {};       // LayerMap::parse; empty: the model's own
    bool average = false;             // an owner's keys and values are the mean of those of all layers that read it, as
                                      // LCKV's convert_pretrained.py begins; else they are its own
    std::optional<DType> dtype = {};  // of what is written
};

/// A config.json, tokenizer files, ... as bytes.
struct ModelFile {
    std::string name;
    std::string bytes;
};

class Conversion {
  public:
    struct Tensor {
        std::string name;
        Shape shape;
        std::vector<std::string> parts;  // the tensors of the source whose mean it is, itself first
        DType stored;                    // the first part's type; f16 where that is quantised
    };

    /// Opens the model at `from`. Errors: as open_model; Exit::kData for text that is no map of this model, and for
    /// owners without weights.
    Conversion(const std::filesystem::path& from, ConversionWish wish);

    const LlamaConfig& config() const { return config_; }
    const std::vector<Tensor>& tensors() const { return tensors_; }
    /// What was wished, or the type that most of the model's elements have.
    DType main_type() const { return wish_.dtype.value_or(source_->natural_dtype()); }
    std::optional<DType> wished_type() const { return wish_.dtype; }
    /// A config.json that transformers reads, with the layer map. It says nothing of rope.factors: no config.json can.
    std::string config_json() const;
    /// The other files that the model has, of those that a folder may have (kCopiedFiles), and of a GGUF file its
    /// metadata. Errors: Exit::kData for one that is too large.
    std::vector<ModelFile> files() const;

    /// Rows of the columns [col0, col0 + cols) as `type`, some at a time, in order. A vector has one column. Errors:
    /// those of WeightSource::read.
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

/// Files that go along with config.json and weights.
inline constexpr const char* kCopiedFiles[] = {"tokenizer.json",          "tokenizer.model",   "tokenizer_config.json",
                                               "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                                               "generation_config.json"};

}  // namespace trireme
