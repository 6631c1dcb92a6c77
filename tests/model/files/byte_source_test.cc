#include "model/files/byte_source.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

TEST(ByteSource, ReadsFilesAndMemoryAlike) {
    const TempFolder folder;
    const auto file = open_file(folder.write("f", "0123456789"));
    const auto memory = memory_source("m", bytes_of("0123456789"));

    for (const ByteSource* source : {file.get(), memory.get()}) {
        std::string out(4, ' ');
        source->read(3, std::as_writable_bytes(std::span(out)));
        EXPECT_EQ(source->size(), 10u);
        EXPECT_EQ(out, "3456");
        source->read(10, {});
        expect_error([&] { source->read(7, std::as_writable_bytes(std::span(out))); }, Exit::kData, {"ends at 10"});
        expect_error([&] { source->read(~uint64_t{0}, std::as_writable_bytes(std::span(out))); }, Exit::kData, {});
    }
    EXPECT_EQ(read_text(*file, 10), "0123456789");
    expect_error([&] { read_text(*file, 9); }, Exit::kData, {"10 bytes, at most 9"});
}

TEST(ByteSource, RefusesWhatIsNoRegularFile) {
    const TempFolder folder;
    ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
    fs::create_symlink("loop", folder.path() / "loop");

    expect_error([&] { open_file(folder.path() / "none"); }, Exit::kNoInput, {"none", "No such file"});
    expect_error([&] { open_file(folder.path() / "none" / "x"); }, Exit::kNoInput, {});
    expect_error([&] { open_file(folder.path()); }, Exit::kData, {"regular file"});
    expect_error([&] { open_file(folder.path() / "pipe"); }, Exit::kData, {"regular file"});
    expect_error([&] { open_file("/dev/zero"); }, Exit::kData, {"regular file"});
    expect_error([&] { open_file(folder.path() / "loop"); }, Exit::kData, {});
    expect_error([&] { open_file(folder.path() / std::string(300, 'x')); }, Exit::kData, {});
}

TEST(ByteSource, SeesThatAFileChanged) {
    const TempFolder folder;
    const fs::path path = folder.write("f", std::string(100, 'a'));
    const auto source = open_file(path);
    EXPECT_NO_THROW(source->check_unchanged());

    fs::resize_file(path, 50);

    std::string out(100, ' ');
    expect_error([&] { source->read(0, std::as_writable_bytes(std::span(out))); }, Exit::kIo, {"cut to 50 bytes"});
    expect_error([&] { source->check_unchanged(); }, Exit::kIo, {"changed while"});
}

TEST(ByteSource, SeesAnOverwriteOfTheSameSize) {
    const TempFolder folder;
    const fs::path path = folder.write("f", std::string(100, 'a'));
    const auto source = open_file(path);

    folder.write("f", std::string(100, 'b'));
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));

    expect_error([&] { source->check_unchanged(); }, Exit::kIo, {"changed while"});
}

TEST(ByteSource, OpensOnlyPlainNamesInAFolder) {
    const TempFolder folder;
    fs::create_directory(folder.path() / "model");
    folder.write("outside", "secret");
    folder.write("model/inside", "weights");

    const auto open = [&](const std::string& name) { return open_in_folder(folder.path() / "model", name); };
    EXPECT_EQ(open("inside")->size(), 7u);
    for (const char* name : {"../outside", "/etc/passwd", "..", ".", "", "a/b", "../model/inside"}) {
        expect_error([&] { open(name); }, Exit::kData, {"plain file name"});
    }
    expect_error([&] { open(std::string("inside\0x", 8)); }, Exit::kData, {"plain file name"});
    expect_error([&] { open("none"); }, Exit::kNoInput, {"none"});
}

TEST(ByteSource, FollowsLinksInsideTheFolderOnly) {
    const TempFolder folder;
    fs::create_directory(folder.path() / "model");
    folder.write("outside", "secret");
    folder.write("model/inside", "weights");
    fs::create_symlink("inside", folder.path() / "model" / "good");
    fs::create_symlink("../outside", folder.path() / "model" / "bad");
    fs::create_symlink("nowhere", folder.path() / "model" / "dangling");

    EXPECT_EQ(open_in_folder(folder.path() / "model", "good")->size(), 7u);
    expect_error([&] { open_in_folder(folder.path() / "model", "bad"); }, Exit::kData, {"bad", "outside the model"});
    expect_error([&] { open_in_folder(folder.path() / "model", "dangling"); }, Exit::kNoInput, {"dangling"});
}

TEST(ByteSource, FollowsLinksOfTheHuggingFaceCache) {
    const TempFolder folder;
    const fs::path repo = folder.path() / "models--a--b", snapshot = repo / "snapshots" / "0123";
    fs::create_directories(snapshot);
    fs::create_directories(repo / "blobs");
    fs::create_directories(repo / "refs");
    folder.write("models--a--b/blobs/feed", "weights");
    folder.write("models--a--b/refs/main", "0123");
    fs::create_symlink("../../blobs/feed", snapshot / "model.safetensors");
    fs::create_symlink("../../refs/main", snapshot / "config.json");

    const auto source = open_in_folder(snapshot, "model.safetensors");
    EXPECT_EQ(source->size(), 7u);
    EXPECT_NE(source->name().find("model.safetensors"), std::string::npos);  // not the blob's hash
    expect_error([&] { open_in_folder(snapshot, "config.json"); }, Exit::kData, {"outside the model"});
}

}  // namespace
}  // namespace trireme::test
