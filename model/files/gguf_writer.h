#pragma once
/// Writer of GGUF files, version 3: metadata, then tensors one after the other.

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/gguf_file.h"
#include "runtime/part_file.h"
#include "runtime/stored_type.h"

namespace trireme {

/// The metadata of a file: keys and values in order. A key must not be added twice.
class GgufEntries {
  public:
    void string(std::string_view key, std::string_view value);
    void boolean(std::string_view key, bool value);
    void u32(std::string_view key, uint32_t value);
    void f32(std::string_view key, float value);
    void strings(std::string_view key, std::span<const std::string> values);
    void i32s(std::string_view key, std::span<const int32_t> values);
    void f32s(std::string_view key, std::span<const float> values);
    /// An entry of another file: key, type and value as they are there.
    void copy(std::string_view bytes);
    void add(const GgufEntries& more);

    uint64_t count() const { return count_; }
    const std::string& bytes() const { return bytes_; }

  private:
    void begin(std::string_view key, uint32_t type);
    template <class T>
    void put(T value) {
        char raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof(T));
        bytes_.append(raw, sizeof(T));
    }
    void put_text(std::string_view text);
    template <class T>
    void numbers(std::string_view key, uint32_t type, std::span<const T> values);

    uint64_t count_ = 0;
    std::string bytes_;
};

/// The entries of an open file, but those whose key `left_out` says. Errors: Exit::kIo.
template <class LeftOut>
GgufEntries copy_entries(const ByteSource& source, const GgufFile& file, const LeftOut& left_out) {
    GgufEntries out;
    for (const GgufFile::Entry& e : file.entries) {
        if (left_out(e.key)) continue;
        std::string bytes(static_cast<size_t>(e.end - e.begin), '\0');
        source.read(e.begin, std::as_writable_bytes(std::span(bytes)));
        out.copy(bytes);
    }
    return out;
}

/// A tensor of the file; `shape` has the outermost extent first, as everywhere here.
struct GgufOutput {
    std::string name;
    std::vector<int64_t> shape;
    StoredType type;  // one of GGUF's

    uint64_t bytes() const;
};

class GgufWriter {
  public:
    /// The file appears with publish(). Errors: Exit::kInternal for a type that GGUF does not have; as PartFile and
    /// PartFile::reserve.
    GgufWriter(const std::filesystem::path& path, IfThere old, const GgufEntries& entries,
               const std::vector<GgufOutput>& tensors);
    /// Appends bytes of the tensors, in their order. Errors: Exit::kIo.
    void append(std::span<const std::byte> bytes);
    /// Makes the file appear. All tensors must be full. Errors: as PartFile::publish.
    void publish();
    /// Size of the whole file.
    uint64_t bytes() const { return file_bytes_; }

  private:
    struct Range {
        uint64_t begin, end;
    };
    PartFile file_;
    std::vector<Range> tensors_;
    size_t at_ = 0;        // the tensor that is not full
    uint64_t filled_ = 0;  // its bytes
    uint64_t file_bytes_ = 0;
};

}  // namespace trireme
