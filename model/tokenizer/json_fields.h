#pragma once
/// JsonFields: typed access to the fields of a JSON object in a tokenizer's files; errors name the location.

#include <optional>
#include <string>
#include <string_view>

#include "model/files/json.h"
#include "runtime/error.h"

namespace trireme {

/// A view: the object must outlive it. A field that is null counts as missing. Errors of all members: Exit::kData,
/// "<where>: ...", for a value of another type, and for a missing field unless stated otherwise.
class JsonFields {
  public:
    /// Errors: `value` is no object. `where`: the file and the path to the object.
    JsonFields(const Json& value, std::string where);

    const std::string& where() const { return where_; }
    /// Throws an error of this object: "<where>: reason".
    template <class... Args>
    [[noreturn]] void refuse(fmt::format_string<std::type_identity_t<Args>...> reason, Args&&... args) const {
        fail(Exit::kData, "{}: {}", where_, fmt::format(reason, std::forward<Args>(args)...));
    }

    /// Returns nullptr for a missing field. `name` may come from the file.
    const Json* find(std::string_view name) const;
    const Json& need(std::string_view name) const;

    std::string text(const char* name) const;
    std::optional<std::string> optional_text(const char* name) const;
    /// Returns `missing` for a missing field.
    bool flag(const char* name, bool missing) const;
    std::optional<bool> optional_flag(const char* name) const;
    /// Returns an integer in [0, limit).
    int64_t index(std::string_view name, int64_t limit) const;
    JsonFields object(const char* name) const;
    /// Returns an array.
    const Json& list(const char* name) const;

  private:
    [[noreturn]] void refuse_type(const char* name, const Json& found, const char* wanted) const;

    const Json& value_;
    std::string where_;
};

}  // namespace trireme
