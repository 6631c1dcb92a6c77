#include "model/files/store/layout.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "model/files/hdf5_library.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif
#include "runtime/error.h"

namespace trireme {
namespace {

hid_t file_type(DType type) {
    switch (type) {
        case DType::kF32:
            return H5T_IEEE_F32LE;
        case DType::kI32:
            return H5T_STD_I32LE;
        case DType::kI64:
            return H5T_STD_I64LE;
        case DType::kBF16:
            return H5T_STD_U16LE;
        default:
            return H5T_STD_U8LE;
    }
}

/// IEEE binary16, which HDF5 1.10 has no name for: sign, 5 bits of exponent, 10 of fraction.
Hdf5Id half_type() {
    Hdf5Id type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose, "H5Tcopy");
    hdf5_ok(H5Tset_fields(type, 15, 10, 5, 0, 10), "H5Tset_fields");
    hdf5_ok(H5Tset_size(type, 2), "H5Tset_size");
    hdf5_ok(H5Tset_ebias(type, 15), "H5Tset_ebias");
    return type;
}

/// A file in memory for HDF5. It stores the pages that were written; the others are zeros and use no memory.
class FileInMemory {
  public:
    static constexpr uint64_t kPage = 4096;

    void write(uint64_t at, std::span<const std::byte> bytes) {
        for_pages(at, bytes.size(), [&](uint64_t page, uint64_t in, uint64_t done, uint64_t n) {
            std::vector<std::byte>& there = pages_[page];
            there.resize(kPage);
            std::memcpy(there.data() + in, bytes.data() + done, n);
        });
        bytes_ = std::max(bytes_, at + bytes.size());
    }
    void read(uint64_t at, std::span<std::byte> out) const {
        for_pages(at, out.size(), [&](uint64_t page, uint64_t in, uint64_t done, uint64_t n) {
            const auto there = pages_.find(page);
            if (there == pages_.end()) {
                std::memset(out.data() + done, 0, n);
            } else {
                std::memcpy(out.data() + done, there->second.data() + in, n);
            }
        });
    }
    void set_bytes(uint64_t n) { bytes_ = n; }
    uint64_t bytes() const { return bytes_; }
    std::vector<StoreLayout::Piece> pieces() && {
        std::vector<StoreLayout::Piece> all;
        for (auto& [page, bytes] : pages_) {
            if (page * kPage >= bytes_) break;
            bytes.resize(std::min(kPage, bytes_ - page * kPage));
            all.push_back({page * kPage, std::move(bytes)});
        }
        return all;
    }

  private:
    template <class Body>
    static void for_pages(uint64_t at, uint64_t size, const Body& body) {
        for (uint64_t done = 0; done < size;) {
            const uint64_t in = (at + done) % kPage, n = std::min(size - done, kPage - in);
            body((at + done) / kPage, in, done, n);
            done += n;
        }
    }
    std::map<uint64_t, std::vector<std::byte>> pages_;
    uint64_t bytes_ = 0;
};

/// An open file of an HDF5 file driver whose files are FileInMemory.
struct Opened : H5FD_t {
    FileInMemory* file = nullptr;
    haddr_t eoa = 0;
};
thread_local FileInMemory* to_open = nullptr;

Opened& opened(H5FD_t* file) {
    return *static_cast<Opened*>(file);
}
const Opened& opened(const H5FD_t* file) {
    return *static_cast<const Opened*>(file);
}

hid_t memory_driver() {
    static const hid_t driver = [] {
        static H5FD_class_t c = {};
#if H5_VERSION_GE(1, 13, 2)
        c.version = H5FD_CLASS_VERSION;
        c.value = static_cast<H5FD_class_value_t>(600);  // one of those that programs may choose
#endif
        c.name = "store";
        c.maxaddr = HADDR_MAX / 2;
        c.fc_degree = H5F_CLOSE_WEAK;
        c.open = [](const char*, unsigned, hid_t, haddr_t) -> H5FD_t* {
            auto* const file = new Opened();
            file->file = to_open;
            return file;
        };
        c.close = [](H5FD_t* file) -> herr_t {
            delete &opened(file);
            return 0;
        };
        c.get_eoa = [](const H5FD_t* file, H5FD_mem_t) { return opened(file).eoa; };
        c.set_eoa = [](H5FD_t* file, H5FD_mem_t, haddr_t at) -> herr_t {
            opened(file).eoa = at;
            return 0;
        };
        c.get_eof = [](const H5FD_t* file, H5FD_mem_t) -> haddr_t { return opened(file).file->bytes(); };
        c.read = [](H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t n, void* to) -> herr_t {
            opened(file).file->read(at, {static_cast<std::byte*>(to), n});
            return 0;
        };
        c.write = [](H5FD_t* file, H5FD_mem_t, hid_t, haddr_t at, size_t n, const void* from) -> herr_t {
            opened(file).file->write(at, {static_cast<const std::byte*>(from), n});
            return 0;
        };
        c.truncate = [](H5FD_t* file, hid_t, hbool_t) -> herr_t {
            opened(file).file->set_bytes(opened(file).eoa);
            return 0;
        };
        const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
        std::ranges::copy(map, std::begin(c.fl_map));
        const hid_t id = H5FDregister(&c);
        check(id >= 0, "HDF5: H5FDregister failed");
        return id;
    }();
    return driver;
}

}  // namespace

StoreLayout lay_out(std::span<const StoreSet> sets, uint64_t user_block) {
    configure_hdf5();
    FileInMemory memory;
    to_open = &memory;
    StoreLayout layout;
    {
        const Hdf5Id create(H5Pcreate(H5P_FILE_CREATE), H5Pclose, "H5Pcreate");
        hdf5_ok(H5Pset_obj_track_times(create, false), "H5Pset_obj_track_times");
        hdf5_ok(H5Pset_userblock(create, user_block), "H5Pset_userblock");
        const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "H5Pcreate");
        hdf5_ok(H5Pset_driver(access, memory_driver(), nullptr), "H5Pset_driver");
        hdf5_ok(H5Pset_alignment(access, StoreSet::kBlockBytes, 4096), "H5Pset_alignment");
        const Hdf5Id file(H5Fcreate("store", H5F_ACC_TRUNC, create, access), H5Fclose, "H5Fcreate");
        const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "H5Pcreate");
        hdf5_ok(H5Pset_create_intermediate_group(links, 1), "H5Pset_create_intermediate_group");
        const Hdf5Id half = half_type();
        for (const StoreSet& set : sets) {
            std::vector<hsize_t> dims;
            for (const int64_t d : set.shape) dims.push_back(static_cast<hsize_t>(d));
            const Hdf5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose,
                               "H5Screate_simple");
            const Hdf5Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "H5Pcreate");
            hdf5_ok(H5Pset_obj_track_times(how, false), "H5Pset_obj_track_times");
            hdf5_ok(H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
            hdf5_ok(H5Pset_fill_time(how, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
            const hid_t type = set.type == DType::kF16 ? static_cast<hid_t>(half) : file_type(set.type);
            const Hdf5Id made(H5Dcreate2(file, set.name.c_str(), type, space, links, how, H5P_DEFAULT), H5Dclose,
                              "H5Dcreate2");
            const haddr_t offset = set.bytes() == 0 ? 0 : H5Dget_offset(made);
            check(offset != HADDR_UNDEF, "HDF5: data set '{}' has no place", set.name);
            layout.offsets.push_back(offset);
        }
    }
    layout.file_bytes = memory.bytes();
    layout.pieces = std::move(memory).pieces();
    return layout;
}

}  // namespace trireme
