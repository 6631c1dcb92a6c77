#include "model/files/gguf_file.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {

template <class T>
const T* GgufMetadata::get(std::string_view key, const char* wanted) const {
    const auto it = values_.find(key);
    if (it == values_.end()) return nullptr;
    const T* v = std::get_if<T>(&it->second);
    require(v != nullptr, Exit::kData, "{}: '{}' is not {}", what_, key, wanted);
    return v;
}

std::optional<int64_t> GgufMetadata::integer(std::string_view key) const {
    const auto* v = get<int64_t>(key, "a whole number");
    return v ? std::optional(*v) : std::nullopt;
}

std::optional<double> GgufMetadata::number(std::string_view key) const {
    const auto it = values_.find(key);
    if (it != values_.end() && std::holds_alternative<int64_t>(it->second)) {
        return static_cast<double>(std::get<int64_t>(it->second));
    }
    const auto* v = get<double>(key, "a number");
    return v ? std::optional(*v) : std::nullopt;
}

std::optional<bool> GgufMetadata::boolean(std::string_view key) const {
    const auto* v = get<bool>(key, "true or false");
    return v ? std::optional(*v) : std::nullopt;
}

std::optional<std::string> GgufMetadata::string(std::string_view key) const {
    const auto* v = get<std::string>(key, "a string");
    return v ? std::optional(*v) : std::nullopt;
}

std::vector<int64_t> GgufMetadata::integers(std::string_view key) const {
    const auto* v = get<std::vector<int64_t>>(key, "an array of whole numbers");
    return v ? *v : std::vector<int64_t>();
}

std::vector<double> GgufMetadata::numbers(std::string_view key) const {
    const auto* v = get<std::vector<double>>(key, "an array of numbers");
    return v ? *v : std::vector<double>();
}

std::vector<std::string> GgufMetadata::strings(std::string_view key) const {
    const auto* v = get<std::vector<std::string>>(key, "an array of strings");
    return v ? *v : std::vector<std::string>();
}

size_t GgufMetadata::array_size(std::string_view key) const {
    const auto it = values_.find(key);
    if (it == values_.end()) return 0;
    if (const auto* v = std::get_if<std::vector<int64_t>>(&it->second)) return v->size();
    if (const auto* v = std::get_if<std::vector<double>>(&it->second)) return v->size();
    return get<std::vector<std::string>>(key, "an array")->size();
}

int64_t GgufMetadata::required_integer(std::string_view key) const {
    const auto v = integer(key);
    require(v.has_value(), Exit::kData, "{}: the key '{}' is missing", what_, key);
    return *v;
}

std::string GgufMetadata::required_string(std::string_view key) const {
    auto v = string(key);
    require(v.has_value(), Exit::kData, "{}: the key '{}' is missing", what_, key);
    return *std::move(v);
}

}  // namespace trireme
