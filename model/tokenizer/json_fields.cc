#include "model/tokenizer/json_fields.h"

#include "model/files/shown.h"

namespace trireme {

JsonFields::JsonFields(const Json& value, std::string where) : value_(value), where_(std::move(where)) {
    require(value.is_object(), Exit::kData, "{}: found {}, expected an object", where_, value.type_name());
}

void JsonFields::refuse_type(const char* name, const Json& found, const char* wanted) const {
    fail(Exit::kData, "{}: '{}' is {}, expected {}", where_, name, found.type_name(), wanted);
}

const Json* JsonFields::find(std::string_view name) const {
    const auto found = value_.find(std::string(name));
    return found == value_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::need(std::string_view name) const {
    const Json* found = find(name);
    require(found != nullptr, Exit::kData, "{}: '{}' is missing", where_, shown(name));
    return *found;
}

std::string JsonFields::text(const char* name) const {
    const Json& found = need(name);
    if (!found.is_string()) refuse_type(name, found, "a string");
    return found.get<std::string>();
}

std::optional<std::string> JsonFields::optional_text(const char* name) const {
    return find(name) == nullptr ? std::nullopt : std::optional(text(name));
}

bool JsonFields::flag(const char* name, bool missing) const {
    return optional_flag(name).value_or(missing);
}

std::optional<bool> JsonFields::optional_flag(const char* name) const {
    const Json* found = find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_boolean()) refuse_type(name, *found, "true or false");
    return found->get<bool>();
}

int64_t JsonFields::index(std::string_view name, int64_t limit) const {
    const Json& found = need(name);
    const bool fits = found.is_number_unsigned() && found.get<uint64_t>() < static_cast<uint64_t>(limit);
    require(fits, Exit::kData, "{}: '{}' is {}, expected an integer in [0, {})", where_, shown(name),
            found.is_number() ? found.dump() : found.type_name(), limit);
    return found.get<int64_t>();
}

JsonFields JsonFields::object(const char* name) const {
    return {need(name), fmt::format("{}: {}", where_, name)};
}

const Json& JsonFields::list(const char* name) const {
    const Json& found = need(name);
    if (!found.is_array()) refuse_type(name, found, "a list");
    return found;
}

}  // namespace trireme
