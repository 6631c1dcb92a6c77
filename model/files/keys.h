#pragma once
/// Keys: typed access to the keys of a config.json.

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/files/json.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {

/// One JSON object with typed, optional keys. A key that is null counts as missing, as in transformers.
class Keys {
  public:
    Keys(const Json& json, std::string_view what) : json_(json), what_(what) {
        require(json.is_object(), Exit::kData, "{}: not a JSON object", what);
    }

    const Json* find(const char* key) const {
        const auto it = json_.find(key);
        return it == json_.end() || it->is_null() ? nullptr : &*it;
    }
    bool has_null(const char* key) const { return json_.contains(key) && json_[key].is_null(); }
    std::optional<double> number(const char* key) const {
        const Json* v = find(key);
        if (!v) return {};
        require(v->is_number(), Exit::kData, "{}: '{}' is {}, a number was expected", what_, key, text(*v));
        return v->get<double>();
    }
    std::optional<int64_t> integer(const char* key) const {
        const Json* v = find(key);
        if (!v) return {};
        require(v->is_number(), Exit::kData, "{}: '{}' is {}, a whole number was expected", what_, key, text(*v));
        const double d = v->get<double>();  // also accepts 4096.0; exact far beyond every limit
        require(std::fabs(d) < 0x1p53 && d == std::floor(d), Exit::kData, "{}: '{}' is {}, a whole number was expected",
                what_, key, text(*v));
        return static_cast<int64_t>(d);
    }
    std::optional<bool> boolean(const char* key) const {
        const Json* v = find(key);
        if (!v) return {};
        require(v->is_boolean(), Exit::kData, "{}: '{}' is {}, true or false was expected", what_, key, text(*v));
        return v->get<bool>();
    }
    std::optional<std::string> string(const char* key) const {
        const Json* v = find(key);
        if (!v) return {};
        require(v->is_string(), Exit::kData, "{}: '{}' is {}, a string was expected", what_, key, text(*v));
        return v->get<std::string>();
    }
    /// Reads 16 hexadecimal digits.
    uint64_t digest(const char* key) const {
        const std::string digits = required(string(key), key);
        require(digits.size() == 16 && digits.find_first_not_of("0123456789abcdef") == std::string::npos, Exit::kData,
                "{}: '{}' is '{}', 16 hexadecimal digits were expected", what_, key, shown(digits));
        uint64_t x = 0;
        for (const char c : digits) x = x << 4 | static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
        return x;
    }
    template <class T>
    T required(std::optional<T> value, const char* key) const {
        require(value.has_value(), Exit::kData, "{}: '{}' is missing", what_, key);
        return *value;
    }

    static std::string text(const Json& v) {
        return shown(v.is_structured() ? v.type_name() : v.dump(-1, ' ', false, Json::error_handler_t::replace));
    }

  private:
    const Json& json_;
    std::string_view what_;
};

}  // namespace trireme
