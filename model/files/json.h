#pragma once
/// JSON from untrusted files: bounded depth and size, duplicate keys refused.

#include <string_view>

#include <nlohmann/json.hpp>

namespace trireme {

using Json = nlohmann::json;

struct JsonLimits {
    int depth = 64;
    size_t bytes = size_t{16} << 20;
    bool by_python = false;  // may hold NaN and Infinity, as Python's json writes them: they are read as strings
    size_t values = size_t{1} << 23;  // bounds memory: two bytes of text may become a value of about a hundred
};

/// `what` names the source in messages. Errors: Exit::kData with line and byte.
Json parse_json(std::string_view text, std::string_view what, JsonLimits limits = {});

}  // namespace trireme
