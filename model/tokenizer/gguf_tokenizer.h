#pragma once
/// GgufTokenizer: a GGUF file's metadata under `tokenizer.ggml.*`, as plain values. make_tokenizer() makes a Tokenizer
/// of them.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

class Tokenizer;

/// Filled by model/tokenizer/gguf_tokenizer_reader.h, which checks types only; make_tokenizer() checks the content.
/// Comments name the keys.
struct GgufTokenizer {
    std::string what;                  // names the source in messages: the path of the file
    std::string model;                 // `model`: "llama" (sentencepiece-like) or "gpt2" (byte-level BPE)
    std::string pre;                   // `pre`: the pre-tokenizer's name ("gpt2" only); empty: the key is missing
    std::vector<std::string> tokens;   // `tokens`: [vocab]
    std::vector<float> scores;         // `scores`: [vocab]; may be empty for "gpt2"
    std::vector<int32_t> token_types;  // `token_type`: [vocab] 1 to 6, as SpmPieceType; empty: all are normal
    std::vector<std::string> merges;   // `merges`: "left right", best first; empty for "llama"

    int64_t bos = -1;  // `bos_token_id`; -1: the key is missing
    int64_t eos = -1;  // `eos_token_id`
    int64_t eot = -1;  // `eot_token_id`: ends a conversation turn, and so a sequence
    int64_t eom = -1;  // `eom_token_id`: ends a message, and so a sequence
    int64_t unk = -1;  // `unknown_token_id`: not used

    std::optional<bool> add_bos;                // `add_bos_token`; missing: true for "llama", otherwise `pre` decides
    std::optional<bool> add_eos;                // `add_eos_token`; missing: false
    std::optional<bool> add_space_prefix;       // `add_space_prefix`, for "llama" only; missing: true
    bool remove_extra_whitespaces = false;      // `remove_extra_whitespaces`: refused for "llama" if true
    std::vector<uint8_t> precompiled_charsmap;  // `precompiled_charsmap`: refused for "llama" unless empty
};

/// Makes the tokenizer: an SpmTokenizer or a BpeTokenizer. bos, eos and eot outside the vocabulary are ignored. Errors:
/// Exit::kData naming `what` and the first error (an unknown model or `pre`, a token that is there twice, ...).
std::unique_ptr<Tokenizer> make_tokenizer(const GgufTokenizer& gguf);

/// How the tokenizer's `pre` cuts a text: with one pattern after the other. Errors: Exit::kData for an unknown one.
struct PreTokenizerPatterns {
    std::vector<std::string> patterns;
    bool ignore_merges = false;
};
PreTokenizerPatterns pre_tokenizer_patterns(const GgufTokenizer& gguf);

/// The names of `pre` that it knows.
std::span<const std::string_view> known_pre_tokenizers();

}  // namespace trireme
