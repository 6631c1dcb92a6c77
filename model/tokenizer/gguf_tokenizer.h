#pragma once
/// GgufTokenizer: a GGUF file's metadata under `tokenizer.ggml.*`, as plain values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

class Tokenizer;

/// Filled by the GGUF reader, which checks types only; make_tokenizer() checks the content.
struct GgufTokenizer {
    std::string what;                  // names the source in messages: the path of the file
    std::string model;                 // `model`: "llama" (sentencepiece-like) or "gpt2" (byte-level BPE)
    std::string pre;                   // `pre`: the pre-tokenizer's name; empty where the key is missing
    std::vector<std::string> tokens;   // `tokens`: [vocab]
    std::vector<float> scores;         // `scores`: [vocab], or empty
    std::vector<int32_t> token_types;  // `token_type`: [vocab], or empty (then all are normal)
    std::vector<std::string> merges;   // `merges`: "left right", best first; empty for "llama"

    int64_t bos = -1;  // `bos_token_id`, -1 where the key is missing
    int64_t eos = -1;  // `eos_token_id`
    int64_t eot = -1;  // `eot_token_id`: ends a conversation turn, and so a sequence
    int64_t unk = -1;  // `unknown_token_id`

    std::optional<bool> add_bos;                // `add_bos_token`; missing: the model's own rule
    std::optional<bool> add_eos;                // `add_eos_token`
    std::optional<bool> add_space_prefix;       // `add_space_prefix`; missing: true for "llama"
    bool remove_extra_whitespaces = false;      // `remove_extra_whitespaces`
    std::vector<uint8_t> precompiled_charsmap;  // `precompiled_charsmap`: refused unless empty
};

/// Errors: Exit::kData naming `what` and the first error (an unknown model or `pre`, an id out of range, ...).
std::unique_ptr<Tokenizer> make_tokenizer(const GgufTokenizer& gguf);

}  // namespace trireme
