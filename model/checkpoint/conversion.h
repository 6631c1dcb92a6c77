#pragma once
/// Conversion: a model that is written in another form. It gives tensors piece by piece, as plain elements or in
/// blocks, the config and other files.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/file_type.h"
#include "model/checkpoint/weight_source.h"
#include "model/files/json.h"

namespace trireme {

struct ConversionWish {
    std::string layer_map = {};          // as LayerMap::parse reads it; empty: the model's own
    bool average = false;                // K/V weights of an owner are the mean over all layers that read it, as at the
                                         // start of LCKV's convert_pretrained.py; else they are its own
    std::optional<DType> dtype = {};     // type of the written matrices; empty: their own
    const FileType* quantise = nullptr;  // or: the types of blocks that matrices get
    std::optional<uint64_t> random = {};  // seed of random weights for the config at `from` (random_weights.h)
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
        StoredType source;               // the first part's type
        StoredType written;              // of a matrix: as the wish says, else `source`; of a vector: `source`
    };

    /// Opens the model at `from`, or with wish.random only its config: a folder, or a config.json. Errors: as
    /// open_model; Exit::kData for a layer map that does not fit this model, and for owners without weights;
    /// Exit::kUsage for blocks of a model that has blocks.
    Conversion(const std::filesystem::path& from, ConversionWish wish);

    const LlamaConfig& config() const { return config_; }
    const std::vector<Tensor>& tensors() const { return tensors_; }
    /// The requested type, or that of most of the model's elements.
    DType main_type() const { return wish_.dtype.value_or(source_->natural_dtype()); }
    const ConversionWish& wish() const { return wish_; }
    /// A config.json that transformers reads, with the layer map. It lacks rope.factors, which no config.json can hold.
    std::string config_json() const;
    /// The model's other files that are in kCopiedFiles, and a GGUF file's metadata. Errors: Exit::kData for one that
    /// is too large.
    std::vector<ModelFile> files() const;
    /// Whether they include a GGUF file's metadata.
    bool from_gguf() const;
    /// One of these files by its name; nothing if there is none. Errors: Exit::kData beyond `most` bytes.
    std::optional<std::string> file(const char* name, uint64_t most) const;

    /// Passes all rows of the columns [col0, col0 + cols) to `body` as `type`, some rows at a time, in order. The
    /// number of rows is a multiple of `together` but at the end. A vector has one column. Blocks are of whole rows or
    /// begin and end with a block. Errors: as WeightSource::read; Exit::kConfig for a scale beyond f16.
    void for_pieces(const Tensor& tensor, int64_t col0, int64_t cols, StoredType type,
                    const std::function<void(std::span<std::byte>)>& body, int64_t together = 1) const;

  private:
    StoredType written(const Tensor& tensor) const;
    void values(const Tensor& tensor, int64_t row, int64_t col0, const HostTensor& out) const;
    void mean(const Tensor& tensor, int64_t row, int64_t col0, const HostTensor& out) const;
    void blocks(const Tensor& tensor, int64_t row, int64_t rows, int64_t col0, int64_t cols, StoredType type,
                std::span<std::byte> out) const;

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
