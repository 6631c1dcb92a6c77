#include "model/files/store/writer.h"

#include <algorithm>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

/// The digest of what lies between sets: HDF5's structures, and zeros.
uint64_t digest_between(const StoreManifest& manifest, const StoreLayout& layout, uint64_t user_block) {
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<std::byte> bytes;
    for (const StoreRange& range : ranges_between(manifest, user_block, "store")) {
        bytes.assign(range.end - range.begin, std::byte{0});
        for (const StoreLayout::Piece& piece : layout.pieces) {
            const uint64_t begin = std::max(range.begin, piece.offset),
                           end = std::min(range.end, piece.offset + piece.bytes.size());
            for (uint64_t at = begin; at < end; ++at) bytes[at - range.begin] = piece.bytes[at - piece.offset];
        }
        XXH3_64bits_update(state.get(), bytes.data(), bytes.size());
    }
    return XXH3_64bits_digest(state.get());
}

}  // namespace

StoreWriter::StoreWriter(std::filesystem::path path, IfThere old, std::string kind, std::vector<StoreSet> sets,
                         std::string_view about)
    : file_(std::move(path), old) {
    int64_t blocks = 0;
    sets.push_back({.name = kStoreAbout, .type = DType::kU8, .shape = {static_cast<int64_t>(about.size())}});
    for (const StoreSet& set : sets) blocks += set.blocks();
    sets.push_back({.name = kStoreDigests, .type = DType::kI64, .shape = {blocks}});
    user_block_ = StoreManifest::user_block(kind, sets);
    layout_ = lay_out(sets, user_block_);
    filled_.resize(sets.size());
    for (Filled& f : filled_) XXH3_64bits_reset(f.block.get());
    manifest_ = {
        .kind = std::move(kind), .sets = std::move(sets), .offsets = layout_.offsets, .file_bytes = layout_.file_bytes};
    file_.reserve(layout_.file_bytes);
    append(manifest_.sets.size() - 2, std::as_bytes(std::span(about)));
}

void StoreWriter::append(size_t i, std::span<const std::byte> bytes) {
    const StoreSet& set = manifest_.sets[i];
    Filled& f = filled_[i];
    check(f.bytes + bytes.size() <= set.bytes(), "store: '{}' has {} bytes and gets more", set.name, set.bytes());
    const uint64_t block = static_cast<uint64_t>(set.block_rows()) * set.row_bytes();
    while (!bytes.empty()) {
        const auto some = bytes.first(std::min<size_t>(bytes.size(), block - f.bytes % block));
        file_.write(layout_.offsets[i] + f.bytes, some);
        XXH3_64bits_update(f.block.get(), some.data(), some.size());
        f.bytes += some.size();
        bytes = bytes.subspan(some.size());
        if (f.bytes % block != 0 && f.bytes < set.bytes()) continue;
        f.digests.push_back(XXH3_64bits_digest(f.block.get()));
        XXH3_64bits_reset(f.block.get());
    }
}

void StoreWriter::publish() {
    std::vector<uint64_t> digests;
    const size_t last = manifest_.sets.size() - 1;
    for (size_t i = 0; i < last; ++i) {
        check(filled_[i].bytes == manifest_.sets[i].bytes(), "store: '{}' has {} of {} bytes", manifest_.sets[i].name,
              filled_[i].bytes, manifest_.sets[i].bytes());
        digests.insert(digests.end(), filled_[i].digests.begin(), filled_[i].digests.end());
        // Rows without bytes are blocks, too.
        digests.resize(digests.size() + static_cast<size_t>(manifest_.sets[i].blocks()) - filled_[i].digests.size(),
                       XXH3_64bits(nullptr, 0));
    }
    append(last, std::as_bytes(std::span(digests)));
    manifest_.digests = XXH3_64bits(digests.data(), digests.size() * sizeof(uint64_t));
    manifest_.rest = digest_between(manifest_, layout_, user_block_);
    for (const StoreRange& range : ranges_between(manifest_, user_block_, "store")) {
        for (const StoreLayout::Piece& piece : layout_.pieces) {
            const uint64_t begin = std::max(range.begin, piece.offset),
                           end = std::min(range.end, piece.offset + piece.bytes.size());
            if (begin < end) file_.write(begin, std::span(piece.bytes).subspan(begin - piece.offset, end - begin));
        }
    }
    file_.write(0, manifest_.bytes(user_block_));
    file_.publish();
}

}  // namespace trireme
