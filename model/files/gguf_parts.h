#pragma once
/// A GGUF model in one file, or split into several as llama-gguf-split names them: NAME-00001-of-00003.gguf. The first
/// part has the metadata; each part has tensors of its own.

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"

namespace trireme {

/// The parts of a split file's name.
struct GgufPartName {
    std::filesystem::path prefix;  // "folder/NAME"
    int64_t number, count;         // numbers begin with 1

    static std::optional<GgufPartName> of(const std::filesystem::path& path);
    std::filesystem::path part(int64_t number) const;
};

/// Returns the GGUF file: `path` itself (by its extension or content), or the only one in a folder without config.json.
/// For a split model it is the first part; it is empty if there is none. Errors: Exit::kNoInput (no such path, or
/// several .gguf files), kPermission.
std::filesystem::path find_gguf(const std::filesystem::path& path);

/// Opens the file, and the other parts if its name is that of the first of several. Errors: Exit::kNoInput for a
/// missing part.
std::vector<std::unique_ptr<ByteSource>> open_gguf_parts(const std::filesystem::path& path);

/// Returns the first part's metadata and all parts' tensors, each with the index of its part, from 0. Errors:
/// Exit::kData if the first file is not the first part, for parts of other splits, or a tensor in two; as read_gguf.
GgufFile read_gguf_parts(const std::vector<std::unique_ptr<ByteSource>>& parts);

}  // namespace trireme
