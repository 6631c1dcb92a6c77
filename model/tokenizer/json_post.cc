#include <algorithm>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"
#include "runtime/error.h"

namespace trireme {
namespace {

void read_decoder_step(const JsonFields& fields, DecoderParts& parts) {
    const std::string type = fields.text("type");
    if (type == "Sequence") {
        for (const Json& item : fields.list("decoders")) read_decoder_step({item, fields.where()}, parts);
    } else if (type == "Replace") {
        const std::optional<std::string> from = fields.object("pattern").optional_text("String");
        if (!from || from->empty()) fields.refuse("Replace is supported for a pattern 'String' that is not empty");
        parts.replacements.push_back(replace_text(*from, fields.text("content")));
    } else if (type == "Metaspace") {
        const std::string mark = fields.text("replacement");
        if (mark.empty()) fields.refuse("'replacement' is empty");
        parts.replacements.push_back(replace_text(mark, " "));
    } else if (type == "ByteFallback") {
        parts.byte_fallback = true;
    } else if (type != "ByteLevel" && type != "Fuse" && type != "Strip") {  // those follow from how text is encoded
        fields.refuse("'{}' is not supported (Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace are)",
                      shown(type));
    }
}

/// The ids of a special token that a template names.
void append_special(const JsonFields& fields, const JsonFields& item, int64_t vocab, std::vector<int32_t>& ids) {
    const std::string name = item.text("id");
    const JsonFields token(fields.object("special_tokens").need(name), fields.where() + ": special_tokens");
    for (const Json& id : token.list("ids")) {
        const bool fits = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab);
        require(fits, Exit::kData, "{}: special token '{}' has an id outside the vocabulary of {}", fields.where(),
                shown(name), vocab);
        ids.push_back(id.get<int32_t>());
    }
}

void read_post(const JsonFields& fields, int64_t vocab, TemplateParts& parts) {
    const std::string type = fields.text("type");
    if (type == "Sequence") {
        for (const Json& item : fields.list("processors")) read_post({item, fields.where()}, vocab, parts);
    } else if (type == "TemplateProcessing") {
        bool behind = false;
        for (const Json& item : fields.list("single")) {
            const JsonFields step(item, fields.where() + ": single");
            if (step.find("SpecialToken") != nullptr) {
                append_special(fields, step.object("SpecialToken"), vocab, behind ? parts.after : parts.before);
            } else {
                if (behind || step.object("Sequence").text("id") != "A") step.refuse("the text appears more than once");
                behind = true;
            }
        }
        if (!behind) fields.refuse("'single' leaves out the text");
    } else if (type != "ByteLevel") {  // which only adjusts offsets
        fields.refuse("'{}' is not supported (Sequence, TemplateProcessing, ByteLevel are)", shown(type));
    }
}

}  // namespace

DecoderParts read_decoder(const Json* value, std::string_view what) {
    DecoderParts parts;
    if (value != nullptr) read_decoder_step({*value, std::string(what) + ": decoder"}, parts);
    return parts;
}

TemplateParts read_post_processor(const Json* value, std::string_view what, int64_t vocab) {
    TemplateParts parts;
    if (value != nullptr) read_post({*value, std::string(what) + ": post_processor"}, vocab, parts);
    return parts;
}

std::vector<AddedToken> read_added_tokens(const Json* value, std::string_view what) {
    std::vector<AddedToken> tokens;
    if (value == nullptr) return tokens;
    require(value->is_array(), Exit::kData, "{}: added_tokens is {}, expected a list", what, value->type_name());
    for (const Json& item : *value) {
        const JsonFields fields(item, std::string(what) + ": added_tokens");
        AddedToken token;
        token.text = fields.text("content");
        token.id = static_cast<int32_t>(fields.index("id", limits::kVocab));
        token.special = fields.flag("special", false);
        token.normalized = fields.flag("normalized", !token.special);
        token.lstrip = fields.flag("lstrip", false);
        token.rstrip = fields.flag("rstrip", false);
        token.single_word = fields.flag("single_word", false);
        require(token.text.size() <= kPieceBytes, Exit::kData, "{}: an added token has {} bytes, at most {} are read",
                what, token.text.size(), kPieceBytes);
        tokens.push_back(std::move(token));
    }
    std::vector<int32_t> ids;
    ids.reserve(tokens.size());
    for (const AddedToken& token : tokens) ids.push_back(token.id);
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    require(twice == ids.end(), Exit::kData, "{}: two added tokens have the id {}", what,
            twice == ids.end() ? 0 : *twice);
    return tokens;
}

}  // namespace trireme
