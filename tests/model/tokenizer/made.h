#pragma once
/// Small tokenizers made by hand.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/files/json.h"
#include "model/tokenizer/gguf_tokenizer.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/model/files/support.h"

namespace trireme::test {

using Ids = std::vector<int32_t>;

/// A tokenizer.json with nothing but a BPE model: these tokens have the ids 0, 1, ...; merges are "left right".
Json json_tokenizer(const std::vector<std::string>& tokens, const std::vector<std::string>& merges);
/// Like json_tokenizer(), but byte-level: the 256 letters come first (see byte_letter), then `tokens`.
Json json_byte_level(const std::vector<std::string>& tokens, const std::vector<std::string>& merges);
/// {"id": .., "content": .., ...} with `flags` set to true.
Json json_added(int id, const std::string& text, const std::vector<std::string>& flags = {});
/// Five tokens, one merge.
Json small_json_tokenizer();
std::unique_ptr<Tokenizer> load(const Json& json);
/// load() ends with Exit::kData, and its message has these parts and the file's name.
inline void expect_json_refused(const Json& json, std::vector<std::string> parts) {
    parts.emplace_back("x.json");
    expect_error([&] { load(json); }, Exit::kData, parts);
}

/// GPT-2's letter for a byte, as UTF-8.
std::string byte_letter(int byte);
/// "<0x0A>"
std::string byte_piece(int byte);

/// <unk> <s> </s>, 256 byte pieces, then U+2581 (id 259) and `texts` with the scores -1, -2, ...
std::vector<SpmPiece> spm_pieces(const std::vector<std::string>& texts);
SpmModel spm_model(const std::vector<std::string>& texts);
GgufTokenizer gguf_spm(const std::vector<std::string>& texts);
/// Letters of the 256 bytes, then `tokens`, then "</s>" as a control token, which is bos and eos.
GgufTokenizer gguf_byte_level(const std::string& pre, const std::vector<std::string>& tokens,
                              const std::vector<std::string>& merges);

}  // namespace trireme::test
