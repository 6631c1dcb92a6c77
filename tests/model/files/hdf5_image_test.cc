#include "model/files/hdf5_image.h"

#include <numeric>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// A dataset of a file on disk, read by the library as a user's script would.
template <class T>
std::vector<T> dataset(const fs::path& path, const char* name, hid_t type, std::vector<hsize_t>* dims = nullptr) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    EXPECT_GE(file, 0);
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    EXPECT_GE(set, 0);
    const hid_t space = H5Dget_space(set);
    std::vector<hsize_t> extents(static_cast<size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    std::vector<T> values(std::accumulate(extents.begin(), extents.end(), size_t{1}, std::multiplies<>()));
    EXPECT_GE(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    if (dims) *dims = extents;
    return values;
}

TEST(Hdf5Image, WhatIsSavedReadsBack) {
    const TempFolder folder;
    const fs::path path = folder.path() / "out.h5";
    std::vector<float> x(7 * 5);
    std::iota(x.begin(), x.end(), 0.5f);
    const std::vector<int32_t> ids{1, -2, 3};

    Hdf5Image image;
    image.add("logits", {7, 5}, x);
    image.add("ids", {3}, ids);
    image.save(path, IfThere::kRefuse);

    std::vector<hsize_t> dims;
    EXPECT_EQ(dataset<float>(path, "logits", H5T_NATIVE_FLOAT, &dims), x);
    EXPECT_EQ(dims, (std::vector<hsize_t>{7, 5}));
    EXPECT_EQ(dataset<int32_t>(path, "ids", H5T_NATIVE_INT32), ids);
}

TEST(Hdf5Image, BlocksMayComeInAnyOrder) {
    const TempFolder folder;
    const fs::path path = folder.path() / "out.h5";
    std::vector<float> x(10 * 3);
    std::iota(x.begin(), x.end(), 1.0f);
    const auto rows = [&](int64_t from, int64_t n) { return HostTensor(x.data() + from * 3, DType::kF32, {n, 3}); };

    Hdf5Image image;
    image.create("x", {12, 3});
    image.write_rows("x", 6, rows(6, 4));
    image.write_rows("x", 0, rows(0, 5));
    image.write_rows("x", 5, rows(5, 1));
    expect_error([&] { image.write_rows("x", 4, rows(4, 1)); }, Exit::kInternal, {"written twice"});
    expect_error([&] { image.write_rows("x", 9, rows(0, 3)); }, Exit::kInternal, {"written twice"});
    expect_error([&] { image.write_rows("x", 11, rows(0, 2)); }, Exit::kInternal, {"12 rows"});
    expect_error(
        [&] {
            image.write_rows("x", 10, HostTensor(x.data(), DType::kF32, {1, 4}));
        },
        Exit::kInternal, {"rows of 3"});
    expect_error(
        [&] {
            image.write_rows("x", 10, HostTensor(x.data(), DType::kI32, {1, 3}));
        },
        Exit::kInternal, {"holds i32"});
    expect_error([&] { image.write_rows("y", 0, rows(0, 1)); }, Exit::kInternal, {"no dataset 'y'"});
    image.save(path, IfThere::kRefuse);

    x.resize(12 * 3, 0.0f);  // rows never written
    EXPECT_EQ(dataset<float>(path, "x", H5T_NATIVE_FLOAT), x);
}

TEST(Hdf5Image, RowsMayHaveGapsBetweenThem) {
    const TempFolder folder;
    const fs::path path = folder.path() / "out.h5";
    std::vector<float> x(5 * 8), want(5 * 3);
    std::iota(x.begin(), x.end(), 1.0f);
    for (size_t i = 0; i < want.size(); ++i) want[i] = x[i / 3 * 8 + i % 3];
    const HostTensor strided(x.data(), DType::kF32, {5, 3}, /*stride=*/8);

    Hdf5Image image;
    image.create("x", {5, 3});
    image.write_rows("x", 3, strided.slice_rows(3, 2));
    image.write_rows("x", 0, strided.first_rows(3));
    image.save(path, IfThere::kRefuse);

    EXPECT_EQ(dataset<float>(path, "x", H5T_NATIVE_FLOAT), want);
}

TEST(Hdf5Image, BytesDependOnTheContentAlone) {
    const auto make = [](float v) {
        Hdf5Image image;
        image.add("x", {2}, std::vector<float>{v, 2});
        return image.finish();
    };
    EXPECT_EQ(make(1), make(1));
    EXPECT_NE(make(1), make(3));
}

TEST(Hdf5Image, SaysBeforehandThatThereIsTooLittleMemory) {
    constexpr size_t kTwice = 2 * 1024 * 256 * sizeof(float);
    EXPECT_NO_THROW(Hdf5Image::require_memory("--out", {1024, 256}, kTwice));
    expect_error(
        [] {
            Hdf5Image::require_memory("--out", {1024, 256}, kTwice - 1);
        },
        Exit::kOs, {"--out: 1024 x 256 floats need 2.0 MiB", "2.0 MiB are free", "write fewer"});
}

TEST(Hdf5Image, RefusesMisuse) {
    Hdf5Image image;
    image.add("x", {2}, std::vector<float>{1, 2});
    expect_error([&] { image.add("x", {1}, std::vector<float>{1}); }, Exit::kInternal, {"'x' exists"});
    expect_error([&] { image.add("y", {3}, std::vector<float>{1}); }, Exit::kInternal, {"'y' gets 1 values"});
    expect_error([&] { image.create("z", {}); }, Exit::kInternal, {"without dimensions"});
    image.finish();
    expect_error([&] { image.add("y", {1}, std::vector<float>{1}); }, Exit::kInternal, {"too late"});
    expect_error([&] { image.finish(); }, Exit::kInternal, {"finished before"});
}

TEST(Hdf5Image, AnEmptyImageIsAFile) {
    const TempFolder folder;
    Hdf5Image().save(folder.path() / "empty.h5", IfThere::kRefuse);
    EXPECT_GT(H5Fis_hdf5((folder.path() / "empty.h5").c_str()), 0);
    expect_error([&] { Hdf5Image().save(folder.path() / "none" / "x.h5", IfThere::kReplace); }, Exit::kCantCreate,
                 {"none"});
}

}  // namespace
}  // namespace trireme::test
