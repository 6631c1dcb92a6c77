#include "runtime/unnamed_file.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

TEST(UnnamedFile, GivesBackWhatItTookAndHasNoName) {
    const fs::path folder = fs::path(testing::TempDir()) / "unnamed_file_test";
    fs::create_directory(folder);
    {
        UnnamedFile file(folder);
        std::vector<std::byte> all(100003);
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::byte>(i * 2654435761U >> 9);
        for (size_t at = 0; at < all.size(); at += 997) {
            file.append(std::span(all).subspan(at, std::min<size_t>(997, all.size() - at)));
        }
        EXPECT_TRUE(fs::is_empty(folder));
        EXPECT_EQ(file.bytes(), all.size());
        std::vector<std::byte> out(all.size());
        file.read(0, out);
        EXPECT_EQ(out, all);
        out.resize(10);
        file.read(50001, out);
        EXPECT_TRUE(std::equal(out.begin(), out.end(), all.begin() + 50001));
        EXPECT_THROW(file.read(all.size() - 9, out), Error);
    }
    EXPECT_TRUE(fs::is_empty(folder));
    fs::remove(folder);
    try {
        UnnamedFile file(folder);
        ADD_FAILURE() << "there is no such folder";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kCantCreate);
    }
}

}  // namespace
}  // namespace trireme::test
