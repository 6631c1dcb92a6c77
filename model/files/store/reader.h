#pragma once
/// StoreReader: reads a store (sets.h). It returns only bytes that their digests confirm.

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
    /// Reads everything but the sets. Errors: Exit::kData if it is no store, damaged, or of another kind.
    StoreReader(std::unique_ptr<ByteSource> source, std::string_view kind);

    const std::string& name() const { return source_->name(); }
    /// The "about" text.
    const Json& about() const { return about_; }
    /// Errors: Exit::kData if no set has this name, type and number of dimensions.
    const StoreSet& set(const std::string& name, DType type, size_t dims) const;
    const StoreSet* find(const std::string& name) const;
    const std::vector<StoreSet>& sets() const { return manifest_.sets; }

    /// Reads rows [first, first + n) of a set, in whole blocks; `out` has n rows. Several threads may call it. Errors:
    /// Exit::kData if a block does not have its digest, kIo.
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

/// Rows of a set that are read mostly in order. A digest is of a block of rows (about a megabyte), so the last block
/// that was read is kept.
class StoreRows {
  public:
    /// Both must outlive it.
    StoreRows(const StoreReader& store, const StoreSet& set) : store_(&store), set_(&set) {}
    const StoreSet& set() const { return *set_; }
    /// Row `i`, which is in the set; valid until the next call. Errors: as StoreReader::read.
    const std::byte* row(int64_t i);
    /// Fills `out` with rows from `first` on.
    void read(int64_t first, std::span<std::byte> out);

  private:
    const StoreReader* store_;
    const StoreSet* set_;
    std::vector<std::byte> block_;
    int64_t begin_ = 0, n_ = 0;  // rows in block_
};

}  // namespace trireme
