#pragma once
/// A whole model in one store (store/sets.h). Its data sets: every tensor under its Hugging Face name; or, of matrices
/// whose columns ranks divide, the columns of rank 0 of those that the file was made for as NAME/0, of rank 1 as
/// NAME/1, ..: each [rows, its columns], so that a rank reads bytes that lie together. "files/NAME": config.json,
/// generation_config.json, a tokenizer's files; of a GGUF file its metadata as "files/metadata.gguf". "rope.factors":
/// f32 [head_dim / 2], where the model has some.

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "model/files/byte_source.h"
#include "model/files/weight_source.h"

namespace trireme {

inline constexpr const char *kStoredModel = "set of weights", *kStoredGguf = "metadata.gguf",
                            *kRopeFactors = "rope.factors";

/// Whether the path is a store, of whatever kind. False for what is no regular file. Errors: as open_file and its
/// reads.
bool is_store_file(const std::filesystem::path& path);

/// Errors: those of open_model. Nothing is read that its digest does not confirm, by several threads at once where it
/// is much.
std::unique_ptr<WeightSource> open_store_model(std::unique_ptr<ByteSource> source);

/// The small files of a model in a store.
class StoredFiles {
  public:
    /// Errors: as open_store_model.
    explicit StoredFiles(const std::filesystem::path& path);
    explicit StoredFiles(std::unique_ptr<ByteSource> source);
    StoredFiles(StoredFiles&&) noexcept;
    ~StoredFiles();
    const std::string& name() const;
    /// Errors: Exit::kData beyond `most` bytes.
    std::optional<std::string> text(const std::string& file, uint64_t most) const;

  private:
    std::unique_ptr<class StoreReader> store_;
};

}  // namespace trireme
