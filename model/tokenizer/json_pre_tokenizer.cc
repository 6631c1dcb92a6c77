#include <array>
#include <cctype>

#include "model/files/shown.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"
#include "model/tokenizer/utf8.h"

namespace trireme {
namespace {

SplitBehavior read_behavior(const JsonFields& fields) {
    static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
        {"Isolated", SplitBehavior::kIsolated},
        {"Removed", SplitBehavior::kRemoved},
        {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
        {"MergedWithNext", SplitBehavior::kMergedWithNext},
        {"Contiguous", SplitBehavior::kContiguous},
    }};
    const std::string name = fields.text("behavior");
    for (const auto& [known, behavior] : kNames) {
        if (name == known) return behavior;
    }
    fields.refuse("behavior '{}' is not known", shown(name));
}

/// A pattern that matches `text` and nothing else.
std::string literal(std::string_view text) {
    std::string pattern;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > ' ' && byte < 0x7F && std::isalnum(byte) == 0) pattern += '\\';
        pattern += c;
    }
    return pattern;
}

Regex read_pattern(const JsonFields& fields) {
    const JsonFields pattern = fields.object("pattern");
    if (const auto text = pattern.optional_text("String")) {
        if (text->empty()) pattern.refuse("'String' is empty");
        return {literal(*text), pattern.where()};
    }
    return {pattern.text("Regex"), pattern.where()};
}

void read_byte_level(const JsonFields& fields, PreTokenizerParts& parts) {
    if (fields.flag("add_prefix_space", true)) parts.steps.push_back(add_prefix_space());
    if (fields.flag("use_regex", true))
        parts.steps.push_back(
            split_at(Regex(kGpt2Pattern, fields.where()), SplitBehavior::kIsolated, /*invert=*/false));
    parts.byte_level = true;
}

MetaspacePrefix read_prepend_scheme(const JsonFields& fields) {
    const std::optional<std::string> scheme = fields.optional_text("prepend_scheme");
    if (!fields.flag("add_prefix_space", true)) {  // the older way to say never
        if (scheme && *scheme != "never") fields.refuse("add_prefix_space and prepend_scheme contradict each other");
        return MetaspacePrefix::kNever;
    }
    if (!scheme || *scheme == "always") return MetaspacePrefix::kAlways;
    if (*scheme == "first") return MetaspacePrefix::kFirst;
    if (*scheme != "never") fields.refuse("prepend_scheme '{}' is not known", shown(*scheme));
    return MetaspacePrefix::kNever;
}

void read_metaspace(const JsonFields& fields, PreTokenizerParts& parts) {
    const std::string mark = fields.text("replacement");
    if (mark.empty() || utf8_length(mark) != mark.size()) fields.refuse("'replacement' is not one character");
    const MetaspacePrefix prefix = read_prepend_scheme(fields);
    if (prefix == MetaspacePrefix::kFirst) parts.prefix = PrefixSpace::kAtStart;
    if (prefix == MetaspacePrefix::kAlways) parts.prefix = PrefixSpace::kAfterTokens;
    parts.steps.push_back(metaspace(mark, prefix, fields.flag("split", true)));
}

void read(const JsonFields& fields, PreTokenizerParts& parts) {
    const std::string type = fields.text("type");
    if (parts.byte_level) fields.refuse("'{}' follows ByteLevel, which has to be the last one", shown(type));
    if (type == "Sequence") {
        for (const Json& item : fields.list("pretokenizers")) read({item, fields.where()}, parts);
    } else if (type == "Split") {
        parts.steps.push_back(split_at(read_pattern(fields), read_behavior(fields), fields.flag("invert", false)));
    } else if (type == "Digits") {
        const bool single = fields.flag("individual_digits", false);
        parts.steps.push_back(split_at(Regex(R"(\p{N})", fields.where()),
                                       single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous,
                                       /*invert=*/false));
    } else if (type == "ByteLevel") {
        read_byte_level(fields, parts);
    } else if (type == "Metaspace") {
        read_metaspace(fields, parts);
    } else {
        fields.refuse("'{}' is not supported (Sequence, Split, Digits, ByteLevel, Metaspace are)", shown(type));
    }
}

}  // namespace

PreTokenizerParts read_pre_tokenizer(const Json* value, std::string_view what) {
    PreTokenizerParts parts;
    if (value != nullptr) read({*value, std::string(what) + ": pre_tokenizer"}, parts);
    return parts;
}

}  // namespace trireme
