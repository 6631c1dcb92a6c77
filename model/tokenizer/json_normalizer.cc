#include "model/files/shown.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"

namespace trireme {
namespace {

Normalizer read_replace(const JsonFields& fields) {
    const std::string content = fields.text("content");
    const JsonFields pattern = fields.object("pattern");
    if (const auto text = pattern.optional_text("String")) {
        if (text->empty()) pattern.refuse("'String' is empty");
        return replace_text(*text, content);
    }
    return replace_matches(pattern.text("Regex"), content, pattern.where());
}

void read(const JsonFields& fields, std::vector<Normalizer>& steps, PrefixSpace& prefix) {
    const std::string type = fields.text("type");
    if (type == "Sequence") {
        for (const Json& item : fields.list("normalizers")) read({item, fields.where()}, steps, prefix);
    } else if (type == "Prepend") {
        const std::string text = fields.text("prepend");
        if (text == kSpmSpace || text == " ") prefix = PrefixSpace::kAfterTokens;
        steps.push_back(prepend(text));
    } else if (type == "Replace") {
        steps.push_back(read_replace(fields));
    } else if (type == "Strip") {
        steps.push_back(strip(fields.flag("strip_left", true), fields.flag("strip_right", true)));
    } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
        steps.push_back(unicode_form(/*composed=*/type.back() == 'C', /*compatibility=*/type[2] == 'K'));
    } else {
        fields.refuse("'{}' is not supported (Sequence, Prepend, Replace, Strip, NFC, NFD, NFKC, NFKD are)",
                      shown(type));
    }
}

}  // namespace

PrefixSpace read_normalizer(const Json* value, std::string_view what, std::vector<Normalizer>& steps) {
    PrefixSpace prefix = PrefixSpace::kNone;
    if (value != nullptr) read({*value, std::string(what) + ": normalizer"}, steps, prefix);
    return prefix;
}

}  // namespace trireme
