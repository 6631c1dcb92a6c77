#pragma once
/// Upper limits for everything that is read from files. Overflow checks alone do not stop false sizes that fit into 64
/// bits.

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
inline constexpr uint64_t kTokenizerBytes = uint64_t{256} << 20;    // each file of a tokenizer that is copied
inline constexpr uint64_t kIndexBytes = uint64_t{16} << 20;         // model.safetensors.index.json
inline constexpr uint64_t kSafetensorsHeader = uint64_t{16} << 20;  // a 405B model's largest shard has 0.1 MB
inline constexpr size_t kShards = 1024;
inline constexpr size_t kTensors = 65536;
inline constexpr size_t kNameBytes = 512;
inline constexpr size_t kSafetensorsDims = 8;  // only tensors that are not read have more than 4

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
