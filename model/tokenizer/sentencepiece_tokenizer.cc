#include "model/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <array>

#include <sentencepiece_processor.h>

#include "model/files/shown.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/cut_points.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/token_table.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

constexpr size_t kSentencePiecePartBytes = 1024;

void load(sentencepiece::SentencePieceProcessor& processor, const SpmModel& model, const std::string& what) {
    const auto status = processor.LoadFromSerializedProto(serialize(model));
    require(status.ok(), Exit::kData, "{}: sentencepiece refuses the model: {}", what, shown(status.ToString()));
}

class SentencePieceTokenizer final : public TableTokenizer {
  public:
    SentencePieceTokenizer(TokenTable table, SpmModel model, const std::string& what)
        : TableTokenizer(std::move(table)) {
        for (size_t i = 0; i < model.pieces.size(); ++i) {
            if (model.pieces[i].type == SpmPieceType::kByte)
                byte_ids_[index(byte_of_piece(model.pieces[i].text))] = static_cast<int32_t>(i);
            // A text may be cut here only if the library does not rewrite it first.
            if (model.charsmap.empty() && !model.remove_extra_whitespaces) cuts_.add_token(model.pieces[i].text);
        }
        model.add_dummy_prefix = true;
        load(with_prefix_, model, what);
        model.add_dummy_prefix = false;
        load(plain_, model, what);
    }

  private:
    void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const override {
        const auto valid = [&](std::string_view run) {
            bool first = prefix && run.data() == text.data();
            for (; !run.empty(); first = false) {
                const size_t size = cuts_.part(run, kSentencePiecePartBytes, utf8_code_point(kSpmSpace));
                encode_part(run.substr(0, size), first ? with_prefix_ : plain_, ids);
                run.remove_prefix(size);
            }
        };
        const auto invalid = [&](char byte) { ids.push_back(byte_ids_[static_cast<uint8_t>(byte)]); };
        for_each_utf8_run(text, valid, invalid);
    }

    static void encode_part(std::string_view text, const sentencepiece::SentencePieceProcessor& processor,
                            std::vector<int32_t>& ids) {
        std::vector<int> part;
        const auto status = processor.Encode(text, &part);
        // Fails if the character map turns a character into a control piece: the library cannot encode that.
        require(status.ok(), Exit::kData, "sentencepiece cannot encode {} bytes with this tokenizer.model: {}",
                text.size(), shown(status.ToString()));
        ids.insert(ids.end(), part.begin(), part.end());
    }

    sentencepiece::SentencePieceProcessor with_prefix_, plain_;
    CutPoints cuts_;
    std::array<int32_t, 256> byte_ids_{};
};

/// Returns the pieces that are parsed out of a text. User-defined ones with a space are left to the library, which
/// finds them in text with escaped spaces.
std::vector<AddedToken> added_pieces(const SpmModel& model) {
    std::vector<AddedToken> added;
    for (size_t i = 0; i < model.pieces.size(); ++i) {
        const SpmPiece& piece = model.pieces[i];
        const bool special = piece.type == SpmPieceType::kControl || piece.type == SpmPieceType::kUnknown;
        const bool user = piece.type == SpmPieceType::kUserDefined && piece.text.find(kSpmSpace) == std::string::npos;
        if (!special && !user) continue;
        AddedToken token;
        token.text = piece.text;
        token.id = static_cast<int32_t>(i);
        token.special = special;
        added.push_back(std::move(token));
    }
    return added;
}

/// Adds the tokens of the files next to the model, or replaces their entries.
void add_from_files(TokenTable& table, const SpmModel& model, const SpecialFiles& files) {
    for (const AddedToken& token : files.added) {
        const auto id = static_cast<size_t>(token.id);
        const bool in_model = id < model.pieces.size();
        const bool same_text = in_model && model.pieces[id].text == token.text;
        const bool elsewhere = std::any_of(model.pieces.begin(), model.pieces.end(),
                                           [&](const SpmPiece& piece) { return piece.text == token.text; });
        require(same_text || (!in_model && !elsewhere), Exit::kData,
                "{}: added token '{}' with id {} contradicts tokenizer.model", files.what, shown(token.text), token.id);
        std::erase_if(table.added, [&](const AddedToken& known) { return known.id == token.id; });
        table.added.push_back(token);
        if (table.pieces.size() <= id) table.pieces.resize(id + 1);
        table.pieces[id] = token.text;
    }
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_spm(std::string_view file, const std::string& what,
                                              const SpecialFiles& files) {
    SpmModel model = read_spm_model(file, what);
    TokenTable table;
    for (const SpmPiece& piece : model.pieces) table.pieces.push_back(text_of(piece));
    table.added = added_pieces(model);
    add_from_files(table, model, files);
    if (model.add_dummy_prefix && files.add_prefix_space.value_or(true)) {
        table.prefix = files.legacy ? PrefixSpace::kAfterTokens : PrefixSpace::kAtStart;
    }

    const auto find = [&](const std::string& text) {
        const auto found = std::find_if(model.pieces.begin(), model.pieces.end(),
                                        [&](const SpmPiece& piece) { return piece.text == text; });
        return found == model.pieces.end() ? table.id_of_added(text)
                                           : static_cast<int32_t>(found - model.pieces.begin());
    };
    table.bos = table.id_of_added(model.bos_piece);
    table.eos = table.id_of_added(model.eos_piece);
    files.apply(table, find);
    if (!files.add_bos && table.bos >= 0)
        table.before = {table.bos};  // the format has no field for it; Llama's models need it
    return std::make_unique<SentencePieceTokenizer>(std::move(table), std::move(model), what);
}

}  // namespace trireme
