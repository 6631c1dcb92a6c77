#pragma once
/// Tokenizer: converts text to token ids and back.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The bytes that encode() leaves out of a text, because they have no token. Commands warn about them.
struct LeftOut {
    int64_t bytes = 0;
    uint8_t first = 0;   // the first of those bytes
    int64_t offset = 0;  // that byte's position in the text
};

/// Thread-compatible, const after construction. A text is any byte string: bytes that are not UTF-8 become byte tokens.
class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    /// Returns the ids of a text. Special tokens that are written in it ("</s>") become their ids. `add_special`: adds
    /// BOS and EOS around the text if the model's files require them.
    virtual std::vector<int32_t> encode(std::string_view text, bool add_special) const = 0;

    /// Returns the bytes of one id inside a text; for a special token its name ("</s>"). Empty for an id without a
    /// text: a hole in the vocabulary, or a row that pads the embedding beyond vocab(). Errors: Exit::kData for id < 0.
    virtual std::string piece(int32_t id) const = 0;

    /// Returns the text of a whole sequence: decode(encode(x, false)) == x for every x that the tokenizer's own
    /// normalisation keeps. It drops the space that Llama-2 style tokenizers put before the first word; piece() and
    /// StreamDecoder do not: they continue a text.
    virtual std::string decode(std::span<const int32_t> ids) const;

    /// One more than the largest id.
    virtual int64_t vocab() const = 0;

    virtual int32_t bos() const { return -1; }  // -1: none
    virtual int32_t eos() const { return -1; }
    /// Every id that ends a sequence, ascending: eos() and others that the files name (Llama 3: <|eot_id|>).
    virtual std::vector<int32_t> eos_ids() const { return {}; }
    /// Whether the id is a control token, whose text readers should not see.
    virtual bool is_special(int32_t) const { return false; }
    /// Returns false if some bytes have no token (SmolLM2: 21 control and never-used bytes). encode() leaves them out,
    /// or maps them to the unknown token, as the references do.
    virtual bool keeps_every_byte() const { return true; }
    /// Returns the bytes that encode() leaves out of a text; those of an unknown token do not count. Only byte-level
    /// vocabularies report them; others return none.
    virtual LeftOut left_out(std::string_view) const { return {}; }
};

/// Loads the tokenizer at `path` (--tokenizer or --model). In a folder it is tokenizer.json, else tokenizer.model, else
/// the only .gguf file. `path` may also be one such file, or a model in a store (model/files/store/stored_files.h). A
/// tokenizer.json or tokenizer.model is read with the files next to it (special_files.h). Errors: Exit::kNoInput,
/// kData.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace trireme
