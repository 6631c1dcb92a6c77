#include "runtime/module.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

TEST(Module, ALibraryIsFoundByPatternInTheFirstFolderThatHasIt) {
    const fs::path root = fs::path(testing::TempDir()) / "trireme_module";
    fs::remove_all(root);
    for (const char* folder : {"a", "python3.9/nvidia/nccl/lib", "python3.11/nvidia/nccl/lib"}) {
        fs::create_directories(root / folder);
    }
    std::ofstream(root / "python3.9/nvidia/nccl/lib/libx.so.2") << "x";
    std::ofstream(root / "python3.11/nvidia/nccl/lib/libx.so.2") << "x";
    const std::string pythons = (root / "python3*/nvidia/*/lib").string();

    EXPECT_EQ(find_library("libx.so.2", {(root / "a").string(), pythons}),
              (root / "python3.9/nvidia/nccl/lib/libx.so.2").string());
    std::ofstream(root / "a/libx.so.2") << "x";
    EXPECT_EQ(find_library("libx.so.2", {(root / "a").string(), pythons}), (root / "a/libx.so.2").string());
    EXPECT_EQ(find_library("liby.so.2", {(root / "a").string(), pythons}), "");
    fs::remove_all(root);
}

TEST(Module, SaysInOneLineWhyThereIsNoCard) {
    try {
        load_cuda_module();
        EXPECT_NE(device_makers().find("cuda"), nullptr);  // a machine with a card
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kUnavailable);
        EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("on the CPU"), testing::Not(testing::HasSubstr("\n"))));
        EXPECT_EQ(device_makers().find("cuda"), nullptr);
    }
}

TEST(Device, ANameThatNobodyBroughtAndABadNumberAreRefused) {
    EXPECT_THROW(open_device("nothing"), Error);
    device_makers().add("test", [](const DeviceRequest& r) {
        EXPECT_EQ(r.index, 3);
        return open_device("cpu", r);
    });
    EXPECT_EQ(open_device("test:3")->backend(), "cpu");
    for (const char* name : {"test:", "test:x", "test:-1", "test:3x", "test:99999999999"}) {
        try {
            open_device(name);
            ADD_FAILURE() << name;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kConfig) << name;
        }
    }
}

}  // namespace
}  // namespace trireme::test
