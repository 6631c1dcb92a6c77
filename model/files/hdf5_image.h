#pragma once
/// Hdf5Image: an HDF5 file that is assembled in memory. The library writes no file itself, because it does not sync
/// files to disk and crashes if a disk is full.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/atomic_file.h"
#include "runtime/tensor.h"

namespace trireme {

/// Datasets of float or int32 in the root group, row-major. Bytes depend on the content alone (no time stamps).
class Hdf5Image {
  public:
    /// Memory grows to the size of the data. Errors: Exit::kInternal from the library.
    Hdf5Image();
    ~Hdf5Image();
    Hdf5Image(const Hdf5Image&) = delete;
    Hdf5Image& operator=(const Hdf5Image&) = delete;

    /// Throws Exit::kOs if `free` bytes are too few for a dataset of floats of this shape, which is in memory twice at
    /// finish(). To be called before a run's work starts. `what` names the output in the message.
    static void require_memory(std::string_view what, const std::vector<int64_t>& shape, size_t free);

    /// Adds a dataset in one piece. Errors: Exit::kInternal (name taken, sizes disagree).
    void add(const std::string& name, const std::vector<int64_t>& shape, std::span<const float> values);
    void add(const std::string& name, const std::vector<int64_t>& shape, std::span<const int32_t> values);
    /// Adds a dataset of floats for write_rows(): whole rows in any order, none twice; rows never written are zero.
    void create(const std::string& name, const std::vector<int64_t>& shape);
    /// `rows`: f32 [rows, a row's elements]. It is a tensor and not a span: rows may have gaps between them.
    void write_rows(const std::string& name, int64_t row0, const HostTensor& rows);

    /// Closes the image, reopens it in memory, checks that every dataset has its shape and checksum, and returns the
    /// file's bytes. The image accepts no more data. Errors: Exit::kIo.
    std::vector<std::byte> finish();
    /// Calls finish(), then write_file_atomically() (runtime/atomic_file.h). Errors: as these.
    void save(const std::filesystem::path& path, IfThere old);

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
