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

TEST(Module, FindsLibrariesOfEveryPythonOfThePath) {
    const fs::path root = fs::path(testing::TempDir()) / "trireme_pythons";
    fs::remove_all(root);
    for (const char* folder : {"base/bin", "base/lib/python3.11/site-packages/nvidia/cu13/lib", "venv/bin", "none/bin",
                               "venv/lib/python3.11/site-packages/nvidia/nccl/lib"}) {
        fs::create_directories(root / folder);
    }
    std::ofstream(root / "base/bin/python3") << "x";
    fs::create_symlink(root / "base/bin/python3", root / "venv/bin/python3");
    const fs::path in_base = root / "base/lib/python3.11/site-packages/nvidia/cu13/lib/libx.so.2";
    const fs::path in_venv = root / "venv/lib/python3.11/site-packages/nvidia/nccl/lib/liby.so.2";
    std::ofstream(in_base) << "x";
    std::ofstream(in_venv) << "x";

    std::vector<std::string> folders =
        python_packages((root / "none/bin").string() + ":" + (root / "venv/bin").string());
    for (std::string& folder : folders) folder += "/nvidia/*/lib";

    EXPECT_EQ(find_library("libx.so.2", folders), in_base.string());
    EXPECT_EQ(find_library("liby.so.2", folders), in_venv.string());
    EXPECT_TRUE(python_packages((root / "none/bin").string()).empty());
    fs::remove_all(root);
}

TEST(Module, SaysInOneLineWhyThereIsNoGpu) {
    try {
        load_cuda_module();
        EXPECT_NE(device_makers().find("cuda"), nullptr);  // this machine has a GPU
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kUnavailable);
        EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("on the CPU"), testing::Not(testing::HasSubstr("\n"))));
        EXPECT_EQ(device_makers().find("cuda"), nullptr);
    }
}

TEST(Device, AnUnknownNameAndABadNumberAreRefused) {
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
