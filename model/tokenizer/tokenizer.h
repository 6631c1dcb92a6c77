#pragma once
/// Text <-> token ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What encode() leaves out of a text, because no token stands for it.
struct LeftOut {
    int64_t bytes = 0;
    uint8_t first = 0;   // the first of those bytes
    int64_t offset = 0;  // of that byte in the text
};

/// Thread-compatible, const after construction. A text is any byte string: what is not UTF-8 goes through byte tokens.
class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    /// Special tokens written in `text` are parsed. `add_special`: BOS and EOS where the model's files ask for them.
    virtual std::vector<int32_t> encode(std::string_view text, bool add_special) const = 0;

    /// The bytes of one id inside a text; a special token gives its name ("</s>"). Empty for an id without a text: a
    /// hole in the vocabulary, or a row that pads the embedding beyond vocab(). Errors: Exit::kData for id < 0.
    virtual std::string piece(int32_t id) const = 0;

    /// decode(encode(x, false)) == x for every x that the tokenizer's own normalisation keeps. It drops the space that
    /// Llama-2 style tokenizers put before the first word; piece() and StreamDecoder do not: they continue a text.
    virtual std::string decode(std::span<const int32_t> ids) const;

    /// One more than the largest id.
    virtual int64_t vocab() const = 0;

    virtual int32_t bos() const { return -1; }  // -1: none
    virtual int32_t eos() const { return -1; }
    /// Every id that ends a text, ascending: eos() and what else the files name (Llama 3: <|eot_id|>).
    virtual std::vector<int32_t> eos_ids() const { return {}; }
    /// A control token, whose text a reader does not want to see.
    virtual bool is_special(int32_t) const { return false; }
    /// False where some bytes have no token (SmolLM2: 21 control and never-used bytes). encode() leaves them out or
    /// maps them to the unknown token, as the references do; a caller who cares asks left_out().
    virtual bool keeps_every_byte() const { return true; }
    /// What encode() leaves out of a text. Reported by byte-level vocabularies only.
    virtual LeftOut left_out(std::string_view) const { return {}; }
};

/// From a folder (tokenizer.json, else tokenizer.model; beside it tokenizer_config.json, special_tokens_map.json,
/// generation_config.json, or one .gguf file), from one such file, from a GGUF file, or from a model in a store.
/// Errors: Exit::kNoInput, Exit::kData.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace trireme
