#include "model/files/hdf5_image.h"

#include <array>
#include <iterator>
#include <map>

#include "model/files/hdf5_library.h"
#include "model/files/store/digest.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kGrow = size_t{1} << 20;  // bytes by which the image's memory grows
constexpr size_t kElementBytes = 4;        // size of a float, and of an int32

std::vector<hsize_t> extents(const std::vector<int64_t>& shape) {
    std::vector<hsize_t> dims;
    for (const int64_t d : shape) {
        check(d >= 0, "HDF5: a negative extent {}", d);
        dims.push_back(static_cast<hsize_t>(d));
    }
    check(!dims.empty(), "HDF5: a dataset without dimensions");
    return dims;
}

int64_t elements(const std::vector<int64_t>& shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    return n;
}

/// Returns the digest of the rows' bytes, without the gaps between rows.
uint64_t digest(const void* data, int64_t rows, size_t row_bytes, size_t stride_bytes) {
    Digest all;
    for (int64_t r = 0; r < rows; ++r) {
        all.add({static_cast<const std::byte*>(data) + static_cast<size_t>(r) * stride_bytes, row_bytes});
    }
    return all.value();
}

Hdf5Id access_in_memory() {
    Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
    hdf5_ok(H5Pset_fapl_core(access, kGrow, /*backing_store=*/false), "H5Pset_fapl_core");
    return access;
}

// Callbacks with which the library reads an image of hundreds of megabytes in place, without copying or freeing it.
void* same_memory(size_t, H5FD_file_image_op_t, void* image) {
    return image;
}
void* no_copy(void* to, const void*, size_t, H5FD_file_image_op_t, void*) {
    return to;
}
void* no_growth(void*, size_t, H5FD_file_image_op_t, void*) {
    return nullptr;
}
herr_t keep(void*, H5FD_file_image_op_t, void*) {
    return 0;
}
void* same_image(void* image) {
    return image;
}
herr_t keep_image(void*) {
    return 0;
}

Hdf5Id open_image(std::vector<std::byte>& bytes) {
    const Hdf5Id access = access_in_memory();
    H5FD_file_image_callbacks_t callbacks = {same_memory, no_copy,    no_growth,   keep,
                                             same_image,  keep_image, bytes.data()};
    hdf5_ok(H5Pset_file_image_callbacks(access, &callbacks), "H5Pset_file_image_callbacks");
    hdf5_ok(H5Pset_file_image(access, bytes.data(), bytes.size()), "H5Pset_file_image");
    return Hdf5Id(H5Fopen("image", H5F_ACC_RDONLY, access), H5Fclose, "H5Fopen");
}

}  // namespace

class Hdf5Image::Impl {
  public:
    Impl() {
        configure_hdf5();
        const Hdf5Id access = access_in_memory();
        const Hdf5Id create(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "H5Pcreate");
        hdf5_ok(H5Pset_obj_track_times(create, false), "H5Pset_obj_track_times");
        file_ = Hdf5Id(H5Fcreate("image", H5F_ACC_TRUNC, create, access), H5Fclose, "H5Fcreate");
    }

    void create(const std::string& name, const std::vector<int64_t>& shape, hid_t file_type, hid_t memory_type) {
        check(!finished_, "HDF5: the image is finished, '{}' comes too late", name);
        check(!datasets_.contains(name), "HDF5: dataset '{}' exists", name);
        const std::vector<hsize_t> dims = extents(shape);
        const Hdf5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose,
                           "H5Screate_simple");
        const Hdf5Id properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
        hdf5_ok(H5Pset_obj_track_times(properties, false), "H5Pset_obj_track_times");
        Dataset d{.id = Hdf5Id(H5Dcreate2(file_, name.c_str(), file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                               H5Dclose, "H5Dcreate2"),
                  .shape = shape,
                  .memory_type = memory_type,
                  .row_bytes = static_cast<size_t>(elements({shape.begin() + 1, shape.end()})) * kElementBytes};
        datasets_.emplace(name, std::move(d));
    }

    int64_t row_elements(const std::string& name) const {
        const auto it = datasets_.find(name);
        check(it != datasets_.end(), "HDF5: no dataset '{}'", name);
        return static_cast<int64_t>(it->second.row_bytes / kElementBytes);
    }

    /// `stride`: elements from one row of `data` to the next.
    void write(const std::string& name, int64_t row0, int64_t rows, const void* data, int64_t stride) {
        check(!finished_, "HDF5: the image is finished, rows of '{}' come too late", name);
        const auto it = datasets_.find(name);
        check(it != datasets_.end(), "HDF5: no dataset '{}'", name);
        Dataset& d = it->second;
        check(row0 >= 0 && rows >= 0 && row0 + rows <= d.shape[0], "HDF5: dataset '{}' has {} rows, not [{}, {})", name,
              d.shape[0], row0, row0 + rows);
        if (rows == 0 || d.row_bytes == 0) return;
        const auto next = d.pieces.upper_bound(row0);
        const bool free_after = next == d.pieces.end() || next->first >= row0 + rows;
        const bool free_before =
            next == d.pieces.begin() || std::prev(next)->first + std::prev(next)->second.rows <= row0;
        check(free_after && free_before, "HDF5: rows [{}, {}) of '{}' are written twice", row0, row0 + rows, name);
        const auto row_elements = static_cast<int64_t>(d.row_bytes / kElementBytes);
        const Hdf5Id file = select(d, row0, rows);
        const Hdf5Id memory = plane(rows, row_elements, stride);
        hdf5_ok(H5Dwrite(d.id, d.memory_type, memory, file, H5P_DEFAULT, data), "H5Dwrite");
        d.pieces.emplace(row0,
                         Piece{rows, digest(data, rows, d.row_bytes, static_cast<size_t>(stride) * kElementBytes)});
    }

    std::vector<std::byte> finish() {
        check(!finished_, "HDF5: the image was finished before");
        finished_ = true;
        for (auto& [name, d] : datasets_) d.id = Hdf5Id();
        hdf5_ok(H5Fflush(file_, H5F_SCOPE_GLOBAL), "H5Fflush");
        const ssize_t size = H5Fget_file_image(file_, nullptr, 0);
        check(size > 0, "HDF5: the image has no size");
        std::vector<std::byte> bytes(static_cast<size_t>(size));
        check(H5Fget_file_image(file_, bytes.data(), bytes.size()) == size, "HDF5: H5Fget_file_image failed");
        file_ = Hdf5Id();
        verify(bytes);
        return bytes;
    }

  private:
    struct Piece {
        int64_t rows;
        uint64_t hash;
    };
    struct Dataset {
        Hdf5Id id;
        std::vector<int64_t> shape;
        hid_t memory_type;
        size_t row_bytes;
        std::map<int64_t, Piece> pieces = {};  // what was written, by first row
    };

    /// Selects rows of a dataset in the file.
    static Hdf5Id select(const Dataset& d, int64_t row0, int64_t rows) {
        std::vector<hsize_t> count = extents(d.shape), start(count.size(), 0);
        start[0] = static_cast<hsize_t>(row0);
        count[0] = static_cast<hsize_t>(rows);
        Hdf5Id space(H5Dget_space(d.id), H5Sclose, "H5Dget_space");
        hdf5_ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                "H5Sselect_hyperslab");
        return space;
    }
    /// Selects the same rows in memory, with `stride` elements from one row to the next.
    static Hdf5Id plane(int64_t rows, int64_t row_elements, int64_t stride) {
        const std::array<hsize_t, 2> start = {0, 0};
        const std::array<hsize_t, 2> all = {static_cast<hsize_t>(rows), static_cast<hsize_t>(stride)};
        const std::array<hsize_t, 2> count = {static_cast<hsize_t>(rows), static_cast<hsize_t>(row_elements)};
        Hdf5Id space(H5Screate_simple(2, all.data(), nullptr), H5Sclose, "H5Screate_simple");
        hdf5_ok(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr),
                "H5Sselect_hyperslab");
        return space;
    }

    /// Opens the image as a reader will, and compares the digest of every piece with that of the written piece.
    void verify(std::vector<std::byte>& bytes) {
        const Hdf5Id file = open_image(bytes);
        std::vector<std::byte> read;
        for (auto& [name, d] : datasets_) {
            d.id = Hdf5Id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, "H5Dopen2");
            for (const auto& [row0, piece] : d.pieces) {
                read.resize(static_cast<size_t>(piece.rows) * d.row_bytes);
                const auto row_elements = static_cast<int64_t>(d.row_bytes / kElementBytes);
                const Hdf5Id in_file = select(d, row0, piece.rows);
                const Hdf5Id in_memory = plane(piece.rows, row_elements, row_elements);
                hdf5_ok(H5Dread(d.id, d.memory_type, in_memory, in_file, H5P_DEFAULT, read.data()), "H5Dread");
                require(digest(read.data(), piece.rows, d.row_bytes, d.row_bytes) == piece.hash, Exit::kIo,
                        "HDF5: rows [{}, {}) of '{}' read back differently; nothing was written", row0,
                        row0 + piece.rows, name);
            }
            d.id = Hdf5Id();
        }
    }

    std::map<std::string, Dataset> datasets_;
    Hdf5Id file_;
    bool finished_ = false;
};

Hdf5Image::Hdf5Image() : impl_(std::make_unique<Impl>()) {}
Hdf5Image::~Hdf5Image() = default;

void Hdf5Image::require_memory(std::string_view what, const std::vector<int64_t>& shape, size_t free) {
    std::string text;
    for (const int64_t d : shape) text += fmt::format("{}{}", text.empty() ? "" : " x ", d);
    const size_t wanted = 2 * static_cast<size_t>(elements(shape)) * sizeof(float);
    require(wanted <= free, Exit::kOs,
            "{}: {} floats need {:.1f} MiB while the file is put together (twice their size), {:.1f} MiB are free: "
            "write fewer of them, or where there is more memory",
            what, text, static_cast<double>(wanted) / (1 << 20), static_cast<double>(free) / (1 << 20));
}

void Hdf5Image::add(const std::string& name, const std::vector<int64_t>& shape, std::span<const float> values) {
    check(elements(shape) == static_cast<int64_t>(values.size()), "HDF5: '{}' gets {} values", name, values.size());
    impl_->create(name, shape, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT);
    impl_->write(name, 0, shape[0], values.data(), impl_->row_elements(name));
}

void Hdf5Image::add(const std::string& name, const std::vector<int64_t>& shape, std::span<const int32_t> values) {
    check(elements(shape) == static_cast<int64_t>(values.size()), "HDF5: '{}' gets {} values", name, values.size());
    impl_->create(name, shape, H5T_STD_I32LE, H5T_NATIVE_INT32);
    impl_->write(name, 0, shape[0], values.data(), impl_->row_elements(name));
}

void Hdf5Image::create(const std::string& name, const std::vector<int64_t>& shape) {
    impl_->create(name, shape, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT);
}

void Hdf5Image::write_rows(const std::string& name, int64_t row0, const HostTensor& rows) {
    const int64_t row = impl_->row_elements(name);
    const Matrix<const float> m = rows.as<const float>();
    check(row > 0 && m.cols == row, "HDF5: '{}' has rows of {}, not of {}", name, row, m.cols);
    impl_->write(name, row0, m.rows, m.data, m.stride);
}

std::vector<std::byte> Hdf5Image::finish() {
    return impl_->finish();
}

void Hdf5Image::save(const std::filesystem::path& path, IfThere old) {
    write_file_atomically(path, finish(), old);
}

}  // namespace trireme
