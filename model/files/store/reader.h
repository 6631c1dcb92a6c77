#pragma once
/// Reads a store (sets.h). Nothing is handed out that its digest does not confirm.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/files/byte_source.h"
#include "model/files/json.h"
#include "model/files/store/manifest.h"

namespace trireme {

/// Whether the bytes begin like a store. Errors: Exit::kIo.
bool is_store(const ByteSource& source);

class StoreReader {
  public:
    /// Reads everything but the sets. Errors: Exit::kData for what is no store, is damaged, or is of another kind.
    StoreReader(std::unique_ptr<ByteSource> source, std::string_view kind);

    const std::string& name() const { return source_->name(); }
    /// The "about" text.
    const Json& about() const { return about_; }
    /// Errors: Exit::kData where there is none of this name, or of another type, or of another number of dimensions.
    const StoreSet& set(const std::string& name, DType type, size_t dims) const;
    const StoreSet* find(const std::string& name) const;
    const std::vector<StoreSet>& sets() const { return manifest_.sets; }

    /// Rows [first, first + n) of a set. Reads whole blocks; `out` has n rows. May be called by several threads.
    /// Errors: Exit::kData where a block is not what its digest says, kIo.
    void read(const StoreSet& set, int64_t first, int64_t n, std::span<std::byte> out) const;
    template <class T>
    std::vector<T> all(const StoreSet& set) const {
        std::vector<T> values(set.bytes() / sizeof(T));
        read(set, 0, set.rows(), std::as_writable_bytes(std::span(values)));
        return values;
    }

  private:
    size_t index_of(const StoreSet& set) const { return static_cast<size_t>(&set - manifest_.sets.data()); }
    void verify(const StoreSet& set, int64_t block, std::span<const std::byte> bytes) const;

    std::unique_ptr<ByteSource> source_;
    StoreManifest manifest_;
    std::vector<uint64_t> digests_;
    std::vector<size_t> first_digest_;  // [sets]
    Json about_;
};

/// Rows of a set that are asked for mostly in their order: a digest is of a block of rows (about a megabyte), and the
/// last block that was read is kept.
class StoreRows {
  public:
    /// Both must outlive it.
    StoreRows(const StoreReader& store, const StoreSet& set) : store_(&store), set_(&set) {}
    const StoreSet& set() const { return *set_; }
    /// Row `i`, which is in the set; valid until the next call. Errors: as StoreReader::read.
    const std::byte* row(int64_t i);
    /// As many rows from `first` on as `out` has room for.
    void read(int64_t first, std::span<std::byte> out);

  private:
    const StoreReader* store_;
    const StoreSet* set_;
    std::vector<std::byte> block_;
    int64_t begin_ = 0, n_ = 0;  // rows in it
};

}  // namespace trireme
