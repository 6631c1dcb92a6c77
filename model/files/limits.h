#pragma once
/// Upper limits of sizes that are read from model and tokenizer files. A corrupt size can fit into 64 bits and pass
/// overflow checks, and still request an absurd allocation.

#include <cstddef>
#include <cstdint>

namespace trireme::limits {

// Shapes of a model.
inline constexpr int64_t kLayers = 1024;
inline constexpr int64_t kHeads = 1024;
inline constexpr int64_t kHeadDim = 1024;
inline constexpr int64_t kDim = int64_t{1} << 17;
inline constexpr int64_t kFfnDim = int64_t{1} << 20;
inline constexpr int64_t kVocab = int64_t{1} << 21;
inline constexpr int64_t kContext = int64_t{1} << 24;
inline constexpr size_t kEosTokens = 64;

// Files.
inline constexpr uint64_t kConfigBytes = uint64_t{1} << 20;         // config.json, generation_config.json
inline constexpr uint64_t kTokenizerBytes = uint64_t{256} << 20;    // each tokenizer file that a conversion copies
inline constexpr uint64_t kIndexBytes = uint64_t{16} << 20;         // model.safetensors.index.json
inline constexpr uint64_t kSafetensorsHeader = uint64_t{16} << 20;  // the largest header of a 405B model has 0.1 MB
inline constexpr size_t kShards = 1024;
inline constexpr size_t kTensors = 65536;
inline constexpr size_t kNameBytes = 512;
inline constexpr size_t kSafetensorsDims = 8;  // tensors of more than 4 dimensions are not read

// GGUF.
inline constexpr uint64_t kGgufKeys = 65536;
inline constexpr uint64_t kGgufHeader = uint64_t{256} << 20;  // metadata and tensor list
inline constexpr uint64_t kGgufString = uint64_t{1} << 20;
inline constexpr uint64_t kGgufArray = uint64_t{1} << 22;  // elements: a vocabulary of 2^21 with its merges
inline constexpr uint64_t kGgufDims = 4;
inline constexpr uint64_t kGgufAlignment = uint64_t{1} << 16;

// Messages.
inline constexpr size_t kProblemsShown = 20;

}  // namespace trireme::limits
