#pragma once
/// Reads what the scripts of tests/reference/ have written. Shares no code with the product's readers.

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::test {

/// tests/data/<name>
std::filesystem::path data_path(std::string_view name);
std::string read_text(const std::filesystem::path& path);
/// Folders of tests/data/<name>, or files with this extension, sorted.
std::vector<std::string> data_entries(std::string_view name, std::string_view extension = "");

/// The tensors of a safetensors file; integers are widened, everything is [rows, cols] (cols 1 for vectors).
struct GoldenTensor {
    int64_t rows = 0, cols = 0;
    std::vector<float> f32;
    std::vector<int32_t> i32;
    std::vector<uint8_t> u8;
};
using Golden = std::map<std::string, GoldenTensor>;
Golden read_golden(const std::filesystem::path& path);

/// A model's path as the name of a test's case: "tiny/heads9-kv3" is tiny_heads9_kv3.
inline std::string case_name(std::string path) {
    for (char& c : path) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return path;
}

}  // namespace trireme::test
