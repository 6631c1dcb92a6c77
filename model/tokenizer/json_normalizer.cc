#include "model/files/shown.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"

namespace trireme {
namespace {

Normalizer read_replace(const JsonFields& fields, const std::string& content) {
    const JsonFields pattern = fields.object("pattern");
    if (const auto text = pattern.optional_text("String")) {
        if (text->empty()) pattern.refuse("'String' is empty");
        return replace_text(*text, content);
    }
    return replace_matches(pattern.text("Regex"), content, pattern.where());
}

void read(const JsonFields& fields, NormalizerParts& parts) {
    const std::string type = fields.text("type");
    if (type == "Sequence") {
        for (const Json& item : fields.list("normalizers")) read({item, fields.where()}, parts);
    } else if (type == "Prepend") {
        const std::string text = fields.text("prepend");
        if (text == kSpmSpace || text == " ") parts.prefix = PrefixSpace::kAfterTokens;
        parts.steps.push_back(prepend(text));
    } else if (type == "Replace") {
        const std::string content = fields.text("content");
        parts.moves_start |= content.empty();
        parts.steps.push_back(read_replace(fields, content));
    } else if (type == "Strip") {
        const bool left = fields.flag("strip_left", true);
        parts.moves_start |= left;
        parts.steps.push_back(strip(left, fields.flag("strip_right", true)));
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
        parts.moves_start |= type != "NFC";
        parts.steps.push_back(unicode_form(/*composed=*/type.back() == 'C', /*compatibility=*/type[2] == 'K'));
    } else {
        fields.refuse("'{}' is not supported (Sequence, Prepend, Replace, Strip, NFC, NFD, NFKC, NFKD are)",
                      shown(type));
    }
}

}  // namespace

NormalizerParts read_normalizer(const Json* value, std::string_view what) {
    NormalizerParts parts;
    if (value != nullptr) read({*value, std::string(what) + ": normalizer"}, parts);
    return parts;
}

}  // namespace trireme
