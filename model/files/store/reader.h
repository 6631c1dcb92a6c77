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

/// Returns whether the file begins with kStoreMagic. Errors: Exit::kIo.
bool is_store(const ByteSource& source);

/// A StoreSet that its functions take must be one that this object returned.
class StoreReader {
  public:
    /// Reads and checks the file without the callers' data sets. `kind`: the StoreManifest::kind that is expected.
    /// Errors: Exit::kData if it is no store, damaged, or of another kind.
    StoreReader(std::unique_ptr<ByteSource> source, std::string_view kind);

    /// The file's path, for messages.
    const std::string& name() const { return source_->name(); }
    /// The data set "about", parsed.
    const Json& about() const { return about_; }
    /// Returns the set with this name, type and number of dimensions. Errors: Exit::kData if there is none.
    const StoreSet& set(const std::string& name, DType type, size_t dims) const;
    /// Returns null if there is no set with this name.
    const StoreSet* find(const std::string& name) const;
    /// Returns all sets but "digests", in the file's order; "about" is one of them.
    const std::vector<StoreSet>& sets() const { return manifest_.sets; }

    /// Reads rows [first, first + n) of a set; `out` has the size of n rows. A block of which only some rows are needed
    /// is read whole, to check its digest. Several threads may call it. Errors: Exit::kData if a block does not have
    /// its digest, kIo.
    void read(const StoreSet& set, int64_t first, int64_t n, std::span<std::byte> out) const;
    /// Returns all elements of a set; T has the size of its type.
    template <class T>
    std::vector<T> all(const StoreSet& set) const {
        std::vector<T> values(set.bytes() / sizeof(T));
        read(set, 0, set.rows(), std::as_writable_bytes(std::span(values)));
        return values;
    }

  private:
    size_t index_of(const StoreSet& set) const { return static_cast<size_t>(&set - manifest_.sets.data()); }
    /// Errors: Exit::kData if `bytes`, those of a block, do not have its digest.
    void verify(const StoreSet& set, int64_t block, std::span<const std::byte> bytes) const;

    std::unique_ptr<ByteSource> source_;
    StoreManifest manifest_;            // without "digests"
    std::vector<uint64_t> digests_;     // of the blocks of all sets, one set after the other
    std::vector<size_t> first_digest_;  // [sets] index in digests_ of the set's first block
    Json about_;
};

/// Reads rows of a set mostly in order. A digest is of a block of rows (about a megabyte), so the last block that was
/// read is kept.
class StoreRows {
  public:
    /// Both arguments must outlive it.
    StoreRows(const StoreReader& store, const StoreSet& set) : store_(&store), set_(&set) {}
    const StoreSet& set() const { return *set_; }
    /// Returns the bytes of row `i`, which is in the set; valid until the next call of row() or read(). Errors: as
    /// StoreReader::read.
    const std::byte* row(int64_t i);
    /// Fills `out` with the set's bytes from row `first` on. Errors: as StoreReader::read.
    void read(int64_t first, std::span<std::byte> out);

  private:
    const StoreReader* store_;
    const StoreSet* set_;
    std::vector<std::byte> block_;
    int64_t begin_ = 0, n_ = 0;  // block_ has rows [begin_, begin_ + n_)
};

}  // namespace trireme
