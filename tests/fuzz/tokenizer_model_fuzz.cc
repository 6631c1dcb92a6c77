// tokenizer.model: an accepted one gives ids inside the vocabulary, and decodes them to the same text unless it
// normalises. Each input is read as a file, and as fields appended to a good model, so that it reaches more than the
// checks.

#include <string>

#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/spm_model.h"
#include "tests/fuzz/try_tokenizer.h"

using namespace trireme;

namespace {

std::string good_model() {
    SpmModel model;
    model.model_type = SpmModel::kBpe;
    model.byte_fallback = true;
    model.remove_extra_whitespaces = false;
    model.pieces = {{"<unk>", 0, SpmPieceType::kUnknown}, {"<s>", 0, SpmPieceType::kControl}, {"\u2581", -9}};
    for (int byte = 0; byte < 256; ++byte)
        model.pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, SpmPieceType::kByte});
    const std::string space = "\u2581";
    for (const std::string& text :
         {std::string("a"), std::string("aa"), space + "a", std::string("in"), std::string("th"), space + "th"})
        model.pieces.push_back({text, -1});
    return serialize(model);
}

void try_file(std::string_view file, std::string_view input) {
    const SpmModel model = read_spm_model(file, "tokenizer.model");
    const auto tokenizer = tokenizer_from_spm(file, "tokenizer.model", {});
    fuzz::try_tokenizer(*tokenizer, input, /*keeps=*/model.charsmap.empty() && !model.remove_extra_whitespaces);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::string good = good_model();
    const std::string_view input = fuzz::text_of(data, size);
    fuzz::run([&] { try_file(input, input); });
    return fuzz::run([&] { try_file(good + std::string(input), input); });
}
