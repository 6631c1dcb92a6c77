#pragma once
/// Small files of a model in a store: config.json, a tokenizer's files, the metadata of a GGUF file. They are data sets
/// "files/NAME".

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "model/files/byte_source.h"

namespace trireme {

inline constexpr const char *kStoredModel = "set of weights", *kStoredGguf = "metadata.gguf",
                            *kRopeFactors = "rope.factors", *kStoredBlocks = "blocks";

/// Whether the path is a store of any kind; false if it is no regular file. Errors: as open_file and its reads.
bool is_store_file(const std::filesystem::path& path);

class StoreReader;

/// Returns a file of an open store, nothing if there is none. Errors: Exit::kData beyond `most` bytes.
std::optional<std::string> text_in(const StoreReader& store, const std::string& file, uint64_t most);

/// The small files of a model in a store.
class StoredFiles {
  public:
    /// Errors: as StoreReader.
    explicit StoredFiles(const std::filesystem::path& path);
    explicit StoredFiles(std::unique_ptr<ByteSource> source);
    StoredFiles(StoredFiles&&) noexcept;
    ~StoredFiles();
    const std::string& name() const;
    /// Returns nothing if there is no such file. Errors: Exit::kData beyond `most` bytes.
    std::optional<std::string> text(const std::string& file, uint64_t most) const;

  private:
    std::unique_ptr<StoreReader> store_;
};

}  // namespace trireme
