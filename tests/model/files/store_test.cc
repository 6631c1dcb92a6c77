#include <algorithm>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/files/hdf5_library.h"
#include "model/files/store/reader.h"
#include "model/files/store/writer.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

/// Bytes that depend on their position.
std::vector<std::byte> pattern(uint64_t n, uint64_t seed) {
    std::vector<std::byte> bytes(n);
    for (uint64_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U + seed * 40503) >> 7);
    return bytes;
}

const std::vector<StoreSet> kSets = {{"small", DType::kI32, {3}},
                                     {"layers/0/k", DType::kF16, {7, 3, 65537}},  // rows of 393,222 bytes: two a block
                                     {"layers/0/v", DType::kBF16, {1, 5}},
                                     {"none", DType::kF32, {0, 4}},
                                     {"long", DType::kI64, {400001}},
                                     {"rows of nothing", DType::kU8, {2, 0}}};

fs::path written(const fs::path& folder, IfThere old = IfThere::kRefuse) {
    const fs::path path = folder / "store.h5";
    StoreWriter writer(path, old, "test", kSets, R"({"what": "a store", "n": 7})");
    for (size_t i = 0; i < kSets.size(); ++i) {
        const std::vector<std::byte> all = pattern(kSets[i].bytes(), i);
        // Pieces that end where no row ends.
        for (size_t at = 0; at < all.size(); at += 99991) {
            writer.append(i, std::span(all).subspan(at, std::min<size_t>(99991, all.size() - at)));
        }
    }
    EXPECT_FALSE(old == IfThere::kRefuse && fs::exists(path));
    writer.publish();
    return path;
}

std::vector<std::byte> rows(const StoreReader& reader, const StoreSet& set, int64_t first, int64_t n) {
    std::vector<std::byte> out(static_cast<uint64_t>(n) * set.row_bytes());
    reader.read(set, first, n, out);
    return out;
}

TEST(Store, GivesBackWhatWasWritten) {
    const TempFolder folder;
    const StoreReader reader(open_file(written(folder.path())), "test");
    EXPECT_EQ(reader.about()["n"], 7);
    for (size_t i = 0; i < kSets.size(); ++i) {
        SCOPED_TRACE(kSets[i].name);
        const StoreSet& set = reader.set(kSets[i].name, kSets[i].type, kSets[i].shape.size());
        EXPECT_EQ(set.shape, kSets[i].shape);
        const std::vector<std::byte> all = pattern(set.bytes(), i);
        EXPECT_EQ(rows(reader, set, 0, set.rows()), all);
        // Some rows, which are no whole blocks.
        const int64_t n = set.rows();
        for (const auto& [first, count] : {std::pair{n / 3, n / 3}, {n, int64_t{0}}, {n / 2, n - n / 2}}) {
            const auto row = static_cast<int64_t>(set.row_bytes());
            EXPECT_EQ(rows(reader, set, first, count),
                      std::vector(all.begin() + first * row, all.begin() + (first + count) * row));
        }
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

/// Reads the file with the HDF5 library itself.
TEST(Store, IsAnHdf5File) {
    const TempFolder folder;
    const fs::path path = written(folder.path());
    configure_hdf5();
    const Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, "H5Fopen");
    for (size_t i = 0; i < kSets.size(); ++i) {
        SCOPED_TRACE(kSets[i].name);
        const StoreSet& set = kSets[i];
        const Hdf5Id data(H5Dopen2(file, set.name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2");
        const Hdf5Id space(H5Dget_space(data), H5Sclose, "H5Dget_space"), type(H5Dget_type(data), H5Tclose, "type");
        EXPECT_EQ(H5Sget_simple_extent_ndims(space), static_cast<int>(set.shape.size()));
        EXPECT_EQ(H5Tget_class(type), set.type == DType::kF16 || set.type == DType::kF32 ? H5T_FLOAT : H5T_INTEGER);
        EXPECT_EQ(H5Tget_size(type), size_of(set.type));
        std::vector<std::byte> read(set.bytes());
        ASSERT_GE(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), 0);
        EXPECT_EQ(read, pattern(set.bytes(), i));
    }
    // Half precision: 1.5 is 0x3e00.
    const Hdf5Id data(H5Dopen2(file, "layers/0/k", H5P_DEFAULT), H5Dclose, "H5Dopen2");
    const Hdf5Id half(H5Dget_type(data), H5Tclose, "type");
    std::array<float, 1> value{};
    const uint16_t bits = 0x3e00;
    std::memcpy(value.data(), &bits, sizeof bits);
    ASSERT_GE(H5Tconvert(half, H5T_NATIVE_FLOAT, 1, value.data(), nullptr, H5P_DEFAULT), 0);
    EXPECT_EQ(value[0], 1.5F);
}

TEST(Store, TheSameDataMakesTheSameFile) {
    const TempFolder a, b;
    EXPECT_EQ(slurp(written(a.path())), slurp(written(b.path())));
}

/// True if reading the whole store reports an error.
bool notices(const std::string& bytes) {
    try {
        const StoreReader reader(memory_source("f", std::as_bytes(std::span(bytes))), "test");
        for (const StoreSet& set : reader.sets()) rows(reader, set, 0, set.rows());
        return false;
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kData) << e.what();
        return true;
    }
}

/// A store of one small set, so that each of its bytes can be tried.
std::string small_store() {
    const TempFolder folder;
    const fs::path path = folder.path() / "s.h5";
    StoreWriter writer(path, IfThere::kRefuse, "test", {{"a/b", DType::kI32, {2, 5}}}, "{}");
    writer.append(0, pattern(40, 1));
    writer.publish();
    return slurp(path);
}

TEST(Store, NoticesEveryChangedBit) {
    std::string bytes = small_store();
    ASSERT_FALSE(notices(bytes));
    for (size_t i = 0; i < bytes.size(); ++i) {
        const auto bit = static_cast<char>(1 << (i % 8));
        bytes[i] = static_cast<char>(bytes[i] ^ bit);
        EXPECT_TRUE(notices(bytes)) << "byte " << i;
        bytes[i] = static_cast<char>(bytes[i] ^ bit);
    }
}

TEST(Store, NoticesEveryOtherLength) {
    const std::string bytes = small_store();
    for (size_t n = 0; n < bytes.size(); ++n) EXPECT_TRUE(notices(bytes.substr(0, n))) << n;
    EXPECT_TRUE(notices(bytes + '\0'));
}

TEST(Store, SaysWhatItIsAndWhatWasExpected) {
    const TempFolder folder;
    const fs::path path = written(folder.path());
    expect_error([&] { StoreReader(open_file(path), "kv snapshot"); }, Exit::kData,
                 {"store.h5", "a test", "kv snapshot"});
    expect_error([&] { StoreReader(open_file(folder.write("other.h5", std::string(3000, 'x'))), "test"); }, Exit::kData,
                 {"other.h5", "trireme's"});
    const StoreReader reader(open_file(path), "test");
    expect_error([&] { (void)reader.set("small", DType::kF32, 1); }, Exit::kData, {"no data set 'small' of f32"});
}

TEST(Store, AppearsWholeOrNotAtAll) {
    const TempFolder folder;
    const fs::path path = folder.write("s.h5", "old");
    {
        StoreWriter writer(path, IfThere::kReplace, "test", {{"a", DType::kU8, {3}}}, "{}");
        writer.append(0, bytes_of("ab"));
    }
    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
    expect_error([&] { StoreWriter(path, IfThere::kRefuse, "test", {}, "{}"); }, Exit::kCantCreate, {"exists"});

    // Only one writer at a time; the part file of a killed process is reused.
    StoreWriter writer(path, IfThere::kReplace, "test", {{"a", DType::kU8, {3}}}, "{}");
    expect_error([&] { StoreWriter(path, IfThere::kReplace, "test", {}, "{}"); }, Exit::kCantCreate, {"is writing it"});
    writer.append(0, bytes_of("abc"));
    writer.publish();
    folder.write(".s.h5.trireme-part", std::string(100000, 'x'));
    StoreWriter again(path, IfThere::kReplace, "test", {{"a", DType::kU8, {2}}}, "{}");
    again.append(0, bytes_of("de"));
    again.publish();
    const StoreReader reader(open_file(path), "test");
    EXPECT_EQ(reader.all<char>(reader.set("a", DType::kU8, 1)), (std::vector<char>{'d', 'e'}));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace trireme::test
