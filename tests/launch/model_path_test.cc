#include "launch/run/model_path.h"

#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/refusal.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// A variable of the environment that is restored at the end.
class Variable {
  public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (const char* old = std::getenv(name)) old_ = old;
        value.empty() ? ::unsetenv(name) : ::setenv(name, value.c_str(), 1);
    }
    ~Variable() { old_.empty() ? ::unsetenv(name_) : ::setenv(name_, old_.c_str(), 1); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

  private:
    const char* name_;
    std::string old_;
};

std::string refused(const std::string& name) {
    return refusal([&] { model_path(name); });
}

/// A cache as huggingface_hub writes it: snapshots of links to blobs.
struct Cache {
    Cache() {
        for (const char* commit : {"aaa", "bbb"}) {
            fs::create_directories(model() / "snapshots" / commit);
            fs::create_directories(model() / "refs");
        }
        write_file((model() / "refs/main").string(), "bbb");
        fs::create_directories(fs::path(folder.path()) / "models--org--single/snapshots/ccc");
        fs::create_directories(fs::path(folder.path()) / "models--org--empty");
    }
    fs::path model() const { return fs::path(folder.path()) / "models--org--a.b_C-1"; }
    TempFolder folder;
};

TEST(ModelPath, FindsTheSnapshotOfAModelInTheCache) {
    const Cache cache;
    const Variable hub("HF_HUB_CACHE", cache.folder.path());
    EXPECT_EQ(model_path("org/a.b_C-1"), (cache.model() / "snapshots/bbb").string());
    EXPECT_EQ(model_path("org/single"), cache.folder / "models--org--single/snapshots/ccc");
    EXPECT_EQ(model_path(cache.model().string()), (cache.model() / "snapshots/bbb").string());
    EXPECT_EQ(model_path(cache.model().string() + "/"), (cache.model() / "snapshots/bbb").string());
    const std::string snapshot = (cache.model() / "snapshots/aaa").string();
    EXPECT_EQ(model_path(snapshot), snapshot);
    fs::remove(cache.model() / "refs/main");
    EXPECT_THAT(refused("org/a.b_C-1"), testing::MatchesRegex("66 .*2 snapshots and no refs/main.*snapshots/COMMIT"));
    EXPECT_THAT(refused("org/empty"), testing::HasSubstr("66 "));
    EXPECT_THAT(refused("org/none"), testing::MatchesRegex("66 org/none: no such file .*models--org--none.*"));
}

TEST(ModelPath, LooksWhereHuggingFacesToolsKeepModels) {
    const TempFolder home;
    const Variable hub("HF_HUB_CACHE", ""), hf("HF_HOME", ""), user("HOME", home.path());
    const std::string in_user = home / ".cache/huggingface/hub/models--o--n/snapshots/x";
    const std::string in_home = home / "hf/hub/models--o--n/snapshots/y";
    fs::create_directories(in_user);
    fs::create_directories(in_home);
    EXPECT_EQ(model_path("o/n"), in_user);
    const Variable other("HF_HOME", home / "hf");
    EXPECT_EQ(model_path("o/n"), in_home);
}

TEST(ModelPath, LeavesOtherPathsAlone) {
    const TempFolder folder;
    const Variable hub("HF_HUB_CACHE", folder.path());
    for (const std::string name : {"missing", "./a/b", "../a", "/a/b", "a/b/c", "a/", "/", "models--x--y", "a b/c"}) {
        EXPECT_EQ(model_path(name), name);
    }
    EXPECT_EQ(model_path(folder.path()), folder.path());
}

}  // namespace
}  // namespace trireme::test
