#include "model/files/store/reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "model/files/checked.h"
#include "model/files/shown.h"
#include "model/files/store/digest.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr uint64_t kMostText = uint64_t{16} << 20, kMostBetween = uint64_t{64} << 20, kMostAbout = uint64_t{16} << 20;

struct Head {
    std::array<char, kStoreMagic.size()> magic{};
    uint64_t length = 0, digest = 0;
};
static_assert(sizeof(Head) == 24);

}  // namespace

bool is_store(const ByteSource& source) {
    std::array<char, kStoreMagic.size()> magic{};
    if (source.size() < sizeof(Head)) return false;
    source.read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic.data(), magic.size()) == kStoreMagic;
}

StoreReader::StoreReader(std::unique_ptr<ByteSource> source, std::string_view kind) : source_(std::move(source)) {
    const auto damaged = [&](bool fine, const char* what) {
        require(fine, Exit::kData, "{}: {}: it is damaged or was cut short; write it again", name(), what);
    };
    require(is_store(*source_), Exit::kData, "{}: this is no file of trireme's: a {} was expected", name(), kind);
    Head head;
    source_->read(0, std::as_writable_bytes(std::span(&head, 1)));
    damaged(head.length <= kMostText && (Checked(sizeof head) + head.length).at_most(source_->size()),
            "its manifest does not fit");
    std::string text(head.length, '\0');
    source_->read(sizeof head, std::as_writable_bytes(std::span(text)));
    damaged(XXH3_64bits(text.data(), text.size()) == head.digest, "its manifest is not what was written");
    manifest_ = parse_manifest(text, name());
    require(manifest_.kind == kind, Exit::kData, "{}: this is a {}, a {} was expected", name(), shown(manifest_.kind),
            kind);
    damaged(manifest_.file_bytes == source_->size(), "it has another size than was written");

    // The user block's zeros are checked as well: HDF5 searches them for its own beginning.
    const uint64_t user_block = StoreManifest::user_block(manifest_.kind, manifest_.sets);
    damaged(sizeof head + head.length <= user_block && user_block <= source_->size(), "its manifest does not fit");
    std::vector<std::byte> bytes(user_block - sizeof head - head.length);
    source_->read(sizeof head + head.length, bytes);
    damaged(std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; }), "its head has bytes to spare");
    uint64_t left = 0;
    const std::vector<StoreRange> between = ranges_between(manifest_, user_block, name());
    for (const StoreRange& r : between) left += r.end - r.begin;
    damaged(left <= kMostBetween, "its sets do not fill it");
    Digest rest;
    for (const StoreRange& r : between) {
        bytes.resize(r.end - r.begin);
        source_->read(r.begin, bytes);
        rest.add(bytes);
    }
    damaged(rest.value() == manifest_.rest, "bytes between its data sets are not what was written");

    const StoreSet& last = manifest_.sets.back();
    digests_.resize(static_cast<size_t>(last.rows()));
    source_->read(manifest_.offsets.back(), std::as_writable_bytes(std::span(digests_)));
    damaged(XXH3_64bits(digests_.data(), last.bytes()) == manifest_.digests, "its digests are not what was written");
    manifest_.sets.pop_back();  // only this constructor reads it
    manifest_.offsets.pop_back();
    size_t first = 0;
    for (const StoreSet& set : manifest_.sets) {
        first_digest_.push_back(first);
        first += static_cast<size_t>(set.blocks());
    }
    const StoreSet& about = set(kStoreAbout, DType::kU8, 1);
    damaged(about.bytes() <= kMostAbout, "what it says of itself is too long");
    const std::vector<char> said = all<char>(about);
    about_ = parse_json(std::string_view(said.data(), said.size()), name());
}

const StoreSet* StoreReader::find(const std::string& name) const {
    const auto found = std::ranges::find(manifest_.sets, name, &StoreSet::name);
    return found == manifest_.sets.end() ? nullptr : &*found;
}

const StoreSet& StoreReader::set(const std::string& name, DType type, size_t dims) const {
    const StoreSet* const found = find(name);
    require(found != nullptr && found->type == type && found->shape.size() == dims, Exit::kData,
            "{}: there is no data set '{}' of {} with {} dimensions", this->name(), name, name_of(type), dims);
    return *found;
}

void StoreReader::verify(const StoreSet& set, int64_t block, std::span<const std::byte> bytes) const {
    require(
        XXH3_64bits(bytes.data(), bytes.size()) == digests_[first_digest_[index_of(set)] + static_cast<size_t>(block)],
        Exit::kData, "{}: rows {} to {} of '{}' are not what was written: the file is damaged", name(),
        block * set.block_rows(), std::min(set.rows(), (block + 1) * set.block_rows()) - 1, shown(set.name));
}

void StoreReader::read(const StoreSet& set, int64_t first, int64_t n, std::span<std::byte> out) const {
    const uint64_t row = set.row_bytes();
    check(first >= 0 && n >= 0 && first + n <= set.rows() && out.size() == static_cast<uint64_t>(n) * row,
          "store: rows {} to {} of '{}' to {} bytes", first, first + n, set.name, out.size());
    if (row == 0) return;
    const int64_t block = set.block_rows(), end = first + n;
    std::vector<std::byte> whole;
    for (int64_t at = first; at < end;) {
        const int64_t begin = at / block * block, past = std::min(begin + block, set.rows());
        const auto rows = [&](int64_t count) { return static_cast<size_t>(static_cast<uint64_t>(count) * row); };
        const int64_t taken = std::min(past, end) - at;
        const std::span<std::byte> to = out.subspan(rows(at - first), rows(taken));
        const uint64_t offset = manifest_.offsets[index_of(set)] + static_cast<uint64_t>(begin) * row;
        if (taken == past - begin) {
            source_->read(offset, to);
            verify(set, begin / block, to);
        } else {
            whole.resize(rows(past - begin));
            source_->read(offset, whole);
            verify(set, begin / block, whole);
            std::memcpy(to.data(), whole.data() + rows(at - begin), to.size());
        }
        at += taken;
    }
}

const std::byte* StoreRows::row(int64_t i) {
    const uint64_t row_bytes = set_->row_bytes();
    if (i < begin_ || i >= begin_ + n_) {
        const int64_t begin = i / set_->block_rows() * set_->block_rows();
        const int64_t n = std::min(set_->block_rows(), set_->rows() - begin);
        n_ = 0;  // no rows, in case the block is damaged
        block_.resize(static_cast<size_t>(static_cast<uint64_t>(n) * row_bytes));
        store_->read(*set_, begin, n, block_);
        begin_ = begin;
        n_ = n;
    }
    return block_.data() + static_cast<size_t>(static_cast<uint64_t>(i - begin_) * row_bytes);
}

void StoreRows::read(int64_t first, std::span<std::byte> out) {
    while (!out.empty()) {
        const std::byte* const from = row(first);
        const auto left = static_cast<size_t>(block_.data() + block_.size() - from);
        const size_t some = std::min(out.size(), left);
        std::memcpy(out.data(), from, some);
        out = out.subspan(some);
        first = begin_ + n_;
    }
}

}  // namespace trireme
