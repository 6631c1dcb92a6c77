#pragma once
/// A whole model in one store (store/sets.h). Its data sets: every tensor under its Hugging Face name. If ranks divide
/// a matrix by columns, NAME/0, NAME/1, .. hold the columns of each rank that the file was made for, [rows, its
/// columns]: so a rank reads contiguous bytes. "files/NAME": config.json, generation_config.json, a tokenizer's files;
/// "files/metadata.gguf": the metadata of a GGUF file. "rope.factors": f32 [head_dim / 2], if the model has some.

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

/// Whether the path is a store of any kind; false if it is no regular file. Errors: as open_file and its reads.
bool is_store_file(const std::filesystem::path& path);

/// Opens a stored model. Reading checks every byte against its digest. Errors: as open_model.
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
    /// Returns nothing if there is no such file. Errors: Exit::kData beyond `most` bytes.
    std::optional<std::string> text(const std::string& file, uint64_t most) const;

  private:
    std::unique_ptr<class StoreReader> store_;
};

}  // namespace trireme
