#pragma once
/// StoreWriter: writes a store (sets.h) piece by piece, without holding its data in memory.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/files/store/digest.h"
#include "model/files/store/layout.h"
#include "model/files/store/manifest.h"
#include "runtime/part_file.h"

namespace trireme {

class StoreWriter {
  public:
    /// `kind`: what the file is for; a reader must expect the same. `sets`: the caller's data sets. `about`: a JSON
    /// text, which becomes the data set "about". The file appears with publish(). Errors: as PartFile and
    /// PartFile::reserve.
    StoreWriter(std::filesystem::path path, IfThere old, std::string kind, std::vector<StoreSet> sets,
                std::string_view about);
    /// Like the other constructor, for a PartFile that the caller has opened.
    StoreWriter(std::unique_ptr<PartFile> file, std::string kind, std::vector<StoreSet> sets, std::string_view about);
    /// Appends bytes to the set with index `set` in the constructor's `sets`: any number of bytes up to its size. Calls
    /// for several sets may be interleaved. Errors: Exit::kIo.
    void append(size_t set, std::span<const std::byte> bytes);
    /// Writes the digests and makes the file appear. All sets must be full. Errors: as PartFile::publish.
    void publish();
    bool published() const { return file_->published(); }  // as PartFile::published()
    uint64_t bytes() const { return layout_.file_bytes; }  // size of the whole file

  private:
    /// How much of a set was appended.
    struct Filled {
        uint64_t bytes = 0;
        Digest block;                        // of the block that is not full yet
        std::vector<uint64_t> digests = {};  // of full blocks
    };
    std::unique_ptr<PartFile> file_;
    StoreManifest manifest_;
    uint64_t user_block_ = 0;  // its bytes
    StoreLayout layout_;
    std::vector<Filled> filled_;  // [sets] also of "about" and "digests"
};

}  // namespace trireme
