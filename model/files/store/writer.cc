#include "model/files/store/writer.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

/// Returns the bytes of a range between sets: HDF5's structures, and zeros.
std::vector<std::byte> bytes_between(const StoreRange& range, const std::vector<StoreLayout::Piece>& pieces) {
    std::vector<std::byte> bytes(range.end - range.begin);
    for (const StoreLayout::Piece& piece : pieces) {
        const uint64_t begin = std::max(range.begin, piece.offset),
                       end = std::min(range.end, piece.offset + piece.bytes.size());
        for (uint64_t at = begin; at < end; ++at) bytes[at - range.begin] = piece.bytes[at - piece.offset];
    }
    return bytes;
}

}  // namespace

StoreWriter::StoreWriter(std::filesystem::path path, IfThere old, std::string kind, std::vector<StoreSet> sets,
                         std::string_view about)
    : StoreWriter(std::make_unique<PartFile>(std::move(path), old), std::move(kind), std::move(sets), about) {}

StoreWriter::StoreWriter(std::unique_ptr<PartFile> file, std::string kind, std::vector<StoreSet> sets,
                         std::string_view about)
    : file_(std::move(file)) {
    int64_t blocks = 0;
    sets.push_back({.name = kStoreAbout, .type = DType::kU8, .shape = {static_cast<int64_t>(about.size())}});
    for (const StoreSet& set : sets) blocks += set.blocks();
    sets.push_back({.name = kStoreDigests, .type = DType::kI64, .shape = {blocks}});
    user_block_ = StoreManifest::user_block(kind, sets);
    layout_ = lay_out(sets, user_block_);
    filled_.resize(sets.size());
    manifest_ = {
        .kind = std::move(kind), .sets = std::move(sets), .offsets = layout_.offsets, .file_bytes = layout_.file_bytes};
    file_->reserve(layout_.file_bytes);
    append(manifest_.sets.size() - 2, std::as_bytes(std::span(about)));
}

void StoreWriter::append(size_t i, std::span<const std::byte> bytes) {
    const StoreSet& set = manifest_.sets[i];
    Filled& f = filled_[i];
    check(f.bytes + bytes.size() <= set.bytes(), "store: '{}' has {} bytes and gets more", set.name, set.bytes());
    const uint64_t block = static_cast<uint64_t>(set.block_rows()) * set.row_bytes();
    while (!bytes.empty()) {
        const auto some = bytes.first(std::min<size_t>(bytes.size(), block - f.bytes % block));
        file_->write(layout_.offsets[i] + f.bytes, some);
        f.block.add(some);
        f.bytes += some.size();
        bytes = bytes.subspan(some.size());
        if (f.bytes % block != 0 && f.bytes < set.bytes()) continue;
        f.digests.push_back(f.block.value());
        f.block.reset();
    }
}

void StoreWriter::publish() {
    std::vector<uint64_t> digests;
    const size_t last = manifest_.sets.size() - 1;
    for (size_t i = 0; i < last; ++i) {
        check(filled_[i].bytes == manifest_.sets[i].bytes(), "store: '{}' has {} of {} bytes", manifest_.sets[i].name,
              filled_[i].bytes, manifest_.sets[i].bytes());
        digests.insert(digests.end(), filled_[i].digests.begin(), filled_[i].digests.end());
        // Rows without bytes are blocks as well.
        digests.resize(digests.size() + static_cast<size_t>(manifest_.sets[i].blocks()) - filled_[i].digests.size(),
                       XXH3_64bits(nullptr, 0));
    }
    append(last, std::as_bytes(std::span(digests)));
    manifest_.digests = XXH3_64bits(digests.data(), digests.size() * sizeof(uint64_t));
    Digest rest;
    for (const StoreRange& range : ranges_between(manifest_, user_block_, "store")) {
        const std::vector<std::byte> bytes = bytes_between(range, layout_.pieces);
        rest.add(bytes);
        file_->write(range.begin, bytes);
    }
    manifest_.rest = rest.value();
    file_->write(0, manifest_.bytes(user_block_));
    file_->publish();
}

}  // namespace trireme
