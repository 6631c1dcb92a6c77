#include "tests/model/tokenizer/made.h"

#include <fmt/format.h>

#include "model/tokenizer/tokenizer_json.h"
#include "model/tokenizer/utf8.h"

namespace trireme::test {

Json json_tokenizer(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
    Json vocab = Json::object();
    for (size_t i = 0; i < tokens.size(); ++i) vocab[tokens[i]] = i;
    return {{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

Json json_byte_level(const std::vector<std::string>& tokens, const std::vector<std::string>& merges) {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte) all.push_back(byte_letter(byte));
    all.insert(all.end(), tokens.begin(), tokens.end());
    Json json = json_tokenizer(all, merges);
    json["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    json["decoder"] = {{"type", "ByteLevel"}};
    return json;
}

Json json_added(int id, const std::string& text, const std::vector<std::string>& flags) {
    Json token = {{"id", id}, {"content", text}, {"normalized", false}};
    for (const std::string& flag : flags) token[flag] = true;
    return token;
}

Json small_json_tokenizer() {
    return json_tokenizer({"a", "b", "\u2581", "ab", "<s>"}, {"a b"});
}

std::unique_ptr<Tokenizer> load(const Json& json) {
    return tokenizer_from_json(json.dump(), "x.json", {});
}

std::string byte_letter(int byte) {
    const auto plain = [](int b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
    int letter = byte;
    if (!plain(byte)) {
        letter = 256;
        for (int b = 0; b < byte; ++b) letter += plain(b) ? 0 : 1;
    }
    std::string text;
    append_utf8(text, static_cast<uint32_t>(letter));
    return text;
}

std::string byte_piece(int byte) {
    return fmt::format("<0x{:02X}>", byte);
}

std::vector<SpmPiece> spm_pieces(const std::vector<std::string>& texts) {
    std::vector<SpmPiece> pieces = {
        {"<unk>", 0, SpmPieceType::kUnknown}, {"<s>", 0, SpmPieceType::kControl}, {"</s>", 0, SpmPieceType::kControl}};
    for (int byte = 0; byte < 256; ++byte) pieces.push_back({byte_piece(byte), 0, SpmPieceType::kByte});
    pieces.push_back({"\u2581", -1000, SpmPieceType::kNormal});
    float score = 0;
    for (const std::string& text : texts) pieces.push_back({text, score -= 1, SpmPieceType::kNormal});
    return pieces;
}

SpmModel spm_model(const std::vector<std::string>& texts) {
    SpmModel model;
    model.pieces = spm_pieces(texts);
    model.model_type = SpmModel::kBpe;
    model.byte_fallback = true;
    model.remove_extra_whitespaces = false;
    return model;
}

GgufTokenizer gguf_spm(const std::vector<std::string>& texts) {
    GgufTokenizer gguf;
    gguf.what = "x.gguf";
    gguf.model = "llama";
    for (const SpmPiece& piece : spm_pieces(texts)) {
        gguf.tokens.push_back(piece.text);
        gguf.scores.push_back(piece.score);
        gguf.token_types.push_back(static_cast<int32_t>(piece.type));
    }
    gguf.bos = 1;
    gguf.eos = 2;
    return gguf;
}

GgufTokenizer gguf_byte_level(const std::string& pre, const std::vector<std::string>& tokens,
                              const std::vector<std::string>& merges) {
    GgufTokenizer gguf;
    gguf.what = "x.gguf";
    gguf.model = "gpt2";
    gguf.pre = pre;
    for (int byte = 0; byte < 256; ++byte) gguf.tokens.push_back(byte_letter(byte));
    gguf.tokens.insert(gguf.tokens.end(), tokens.begin(), tokens.end());
    gguf.token_types.assign(gguf.tokens.size(), 1);
    gguf.tokens.push_back("</s>");
    gguf.token_types.push_back(3);
    gguf.merges = merges;
    gguf.bos = gguf.eos = static_cast<int64_t>(gguf.tokens.size()) - 1;
    return gguf;
}

}  // namespace trireme::test
