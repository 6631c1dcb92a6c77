#pragma once
/// The header of a safetensors file: 8 bytes of length, JSON, then the tensors' bytes without holes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/files/byte_source.h"

namespace trireme {

struct SafetensorsEntry {
    std::string dtype;           // as spelled: "F32", "F16", "BF16", "I64", ...
    std::vector<uint64_t> dims;  // at most 8, product times element size checked against the bytes
    uint64_t offset;             // position of the first byte in the file
    uint64_t bytes;
};

using SafetensorsHeader = std::map<std::string, SafetensorsEntry, std::less<>>;

/// Nothing is allocated by a number from the file before that number was compared with the file's size. The tensors
/// must cover the file from the header to the end, without hole or overlap. Errors: Exit::kData, kIo.
SafetensorsHeader read_safetensors_header(const ByteSource& source);

}  // namespace trireme
