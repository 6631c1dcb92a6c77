// A folder that appears whole or not at all.

#include "model/files/new_folder.h"

#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kNames[] = {"a", "b"};
constexpr const char* kPart = "x.trireme-part";

std::vector<std::string> names(const TempFolder& folder) {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) all.push_back(entry.path().filename());
    return all;
}

void put(const NewFolder& folder, const char* name) {
    NewFile file(folder / name);
    file.write("text", 4);
    file.finish();
}

TEST(NewFolder, AppearsWithAllOfItsFiles) {
    const TempFolder in;
    {
        NewFolder folder(in.path() / "x/", kNames);
        put(folder, "a");
        put(folder, "b");
        EXPECT_THAT(names(in), ElementsAre(kPart));
        folder.finish();
        EXPECT_THAT(names(in), ElementsAre("x"));
    }
    EXPECT_THAT(names(in), ElementsAre("x"));
    EXPECT_EQ(slurp(in.path() / "x/a") + slurp(in.path() / "x/b"), "texttext");
}

TEST(NewFolder, GoesWhereItDoesNotGetItsName) {
    const TempFolder in;
    const std::filesystem::path x = in.path() / "x";
    {
        const NewFolder folder(x, kNames);
        put(folder, "b");
    }
    EXPECT_THAT(names(in), IsEmpty());

    const std::function<void()> kinds[] = {[&] { in.write("x", "theirs"); },
                                           [&] { std::filesystem::create_directory(x); },
                                           [&] { std::filesystem::create_symlink("nowhere", x); }};
    for (const std::function<void()>& appear : kinds) {
        expect_error(
            [&] {
                NewFolder folder(x, kNames);
                put(folder, "a");
                appear();
                folder.finish();
            },
            Exit::kCantCreate, {x, "appeared meanwhile"});
        EXPECT_THAT(names(in), ElementsAre("x"));
        std::filesystem::remove(x);
    }
}

TEST(NewFolder, IsWrittenByOneAtATime) {
    const TempFolder in;
    const std::filesystem::path x = in.path() / "x";
    std::optional<NewFolder> first(std::in_place, x, kNames);
    put(*first, "a");
    expect_error([&] { const NewFolder second(x, kNames); }, Exit::kCantCreate, {"another conversion"});
    EXPECT_THAT(names(in), ElementsAre(kPart));
    EXPECT_EQ(slurp(in.path() / kPart / "a"), "text");
    first.reset();

    NewFolder second(x, kNames);
    second.finish();

    EXPECT_THAT(names(in), ElementsAre("x"));
}

}  // namespace
}  // namespace trireme::test
