#pragma once
/// The header of a GGUF file, versions 2 and 3: metadata and the list of tensors.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/files/byte_source.h"
#include "runtime/stored_type.h"

namespace trireme {

/// Integers of all widths are int64_t; those beyond its range are uint64_t, which GgufMetadata refuses to return.
/// Floats are double, arrays of bool are int64_t. Long arrays outside `tokenizer.` are checked, skipped and left as
/// monostate.
using GgufValue = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

struct GgufTensor {
    std::string name;
    std::vector<uint64_t> dims;      // outermost first, as everywhere here (the file has the reverse order)
    std::optional<StoredType> type;  // empty: a type that is not supported
    std::string type_name;           // as llama.cpp spells it
    uint64_t offset;                 // position of the first byte in the file
    uint64_t bytes;                  // 0 without type
    size_t part = 0;                 // index of the file in a split model
};

/// Keys and values with the types the reader expects. Errors name the key: Exit::kData.
class GgufMetadata {
  public:
    GgufMetadata(std::string what, std::map<std::string, GgufValue, std::less<>> values)
        : what_(std::move(what)), values_(std::move(values)) {}

    const std::string& what() const { return what_; }
    bool has(std::string_view key) const { return values_.contains(key); }
    std::optional<int64_t> integer(std::string_view key) const;
    std::optional<double> number(std::string_view key) const;  // integers are converted
    std::optional<bool> boolean(std::string_view key) const;
    std::optional<std::string> string(std::string_view key) const;
    /// Empty where the key is missing.
    std::vector<int64_t> integers(std::string_view key) const;
    std::vector<double> numbers(std::string_view key) const;
    std::vector<std::string> strings(std::string_view key) const;
    /// Elements of an array of any type, 0 where the key is missing.
    size_t array_size(std::string_view key) const;

    int64_t required_integer(std::string_view key) const;
    std::string required_string(std::string_view key) const;

  private:
    template <class T>
    const T* get(std::string_view key, const char* wanted) const;

    std::string what_;
    std::map<std::string, GgufValue, std::less<>> values_;
};

struct GgufFile {
    /// Bytes [begin, end) of the file: a key, its type and its value.
    struct Entry {
        std::string key;
        uint64_t begin, end;
    };
    GgufMetadata metadata;
    std::vector<GgufTensor> tensors;
    std::vector<Entry> entries;
    uint64_t metadata_end = 0;  // position in the file
};

/// The number of a tensor type in files. Errors: Exit::kInternal for INT4 and FP8, which GGUF does not have.
uint32_t gguf_number(StoredType type);
/// Whether GGUF has the type.
bool in_gguf_files(StoredType type);

/// Reads and checks the header. A number from the file is compared with the bytes left before anything is allocated by
/// it. Tensors of supported types must be inside the file, aligned, without overlap or hole. Errors: Exit::kData, kIo.
GgufFile read_gguf(const ByteSource& source);

/// Returns a GGUF file with the same metadata and no tensors. Errors: as read_gguf.
std::string gguf_metadata_alone(const ByteSource& source);

}  // namespace trireme
