// Feeds every file of the folders named on the command line to a fuzz target. Prints their number; a crash is a
// failure.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::filesystem::path> files_in(const char* folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

void replay(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    // A copy of the exact size, so that reading one byte too many is noticed.
    const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
    size_t count = 0;
    std::string current;
    try {
        for (int i = 1; i < argc; ++i) {
            for (const auto& file : files_in(argv[i])) {
                current = file.string();
                replay(file);
                ++count;
            }
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", current.c_str(), e.what());
        return 1;
    }
    std::printf("%zu files\n", count);
    return count > 0 ? 0 : 1;
}
