#include "model/files/shown.h"

#include <fmt/format.h>

namespace trireme {

std::string shown(std::string_view name) {
    constexpr size_t kMost = 120;
    size_t end = name.size();
    if (end > kMost) {
        end = kMost;
        while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0u) == 0x80u) --end;
    }
    std::string text;
    for (const char c : name.substr(0, end)) {
        const auto u = static_cast<unsigned char>(c);
        if (u < 0x20 || u == 0x7f) {
            text += fmt::format("\\x{:02x}", u);
        } else {
            text += c;
        }
    }
    return end < name.size() ? text + "..." : text;
}

std::string dims_text(const std::vector<uint64_t>& dims) {
    std::string s = "[";
    for (size_t i = 0; i < dims.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", dims[i]);
    return s + "]";
}

}  // namespace trireme
