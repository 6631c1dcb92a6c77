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

/// What a file's name says of a split.
struct GgufPartName {
    std::filesystem::path prefix;  // "folder/NAME"
    int64_t number, count;         // from 1

    static std::optional<GgufPartName> of(const std::filesystem::path& path);
    std::filesystem::path part(int64_t number) const;
};

/// The file, and the other parts where its name says that it is the first of several. Errors: Exit::kNoInput for a part
/// that is not there.
std::vector<std::unique_ptr<ByteSource>> open_gguf_parts(const std::filesystem::path& path);

/// The first part's metadata and all parts' tensors, each with the number of its part, from 0. Errors: Exit::kData for
/// a part that is not the first, parts of other splits, a tensor in two of them; as read_gguf.
GgufFile read_gguf_parts(const std::vector<std::unique_ptr<ByteSource>>& parts);

}  // namespace trireme
