#pragma once
/// StoreWriter: writes a store (sets.h) without a second copy of its data.

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
    /// `about`: a JSON text, which becomes the data set "about". The file appears with publish(). Errors: as PartFile
    /// and PartFile::reserve.
    StoreWriter(std::filesystem::path path, IfThere old, std::string kind, std::vector<StoreSet> sets,
                std::string_view about);
    /// Like the above, in a part that is locked already.
    StoreWriter(std::unique_ptr<PartFile> file, std::string kind, std::vector<StoreSet> sets, std::string_view about);
    /// Appends any number of bytes to a set; calls for several sets may be interleaved. Errors: Exit::kIo.
    void append(size_t set, std::span<const std::byte> bytes);
    /// All sets must be full. Errors: as PartFile::publish.
    void publish();
    bool published() const { return file_->published(); }
    uint64_t bytes() const { return layout_.file_bytes; }

  private:
    struct Filled {
        uint64_t bytes = 0;
        Digest block;
        std::vector<uint64_t> digests = {};  // those of full blocks
    };
    std::unique_ptr<PartFile> file_;
    StoreManifest manifest_;
    uint64_t user_block_ = 0;
    StoreLayout layout_;
    std::vector<Filled> filled_;
};

}  // namespace trireme
