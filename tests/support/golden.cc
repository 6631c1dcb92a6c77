#include "tests/support/golden.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

namespace trireme::test {

std::filesystem::path data_path(std::string_view name) {
    const char* moved = std::getenv("TRIREME_TEST_DATA");  // a bundle's
    return std::filesystem::path(moved ? moved : TRIREME_TEST_DATA) / name;
}

std::string read_text(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error("test data missing: " + path.string());
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

std::vector<std::string> data_entries(std::string_view name, std::string_view extension) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(data_path(name))) {
        if (extension.empty() ? entry.is_directory() : entry.path().extension() == extension) {
            names.push_back(entry.path().filename().string());
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

Golden read_golden(const std::filesystem::path& path) {
    const std::string bytes = read_text(path);
    uint64_t header_bytes = 0;
    std::memcpy(&header_bytes, bytes.data(), 8);
    const auto header = nlohmann::json::parse(bytes.substr(8, header_bytes));
    Golden golden;
    for (const auto& [name, info] : header.items()) {
        if (name == "__metadata__") continue;
        GoldenTensor t;
        const auto shape = info["shape"].get<std::vector<int64_t>>();
        t.rows = shape.empty() ? 1 : shape[0];
        t.cols = shape.size() > 1 ? shape[1] : 1;
        const auto range = info["data_offsets"].get<std::vector<size_t>>();
        const char* at = bytes.data() + 8 + header_bytes + range[0];
        const auto fill = [&](auto& out) {
            out.resize((range[1] - range[0]) / sizeof(out[0]));
            std::memcpy(out.data(), at, range[1] - range[0]);
        };
        const std::string type = info["dtype"];
        if (type == "F32") {
            fill(t.f32);
        } else if (type == "I32") {
            fill(t.i32);
        } else if (type == "U8") {
            fill(t.u8);
        } else {
            throw std::runtime_error(path.string() + ": golden of type " + type);
        }
        golden.emplace(name, std::move(t));
    }
    return golden;
}

}  // namespace trireme::test
