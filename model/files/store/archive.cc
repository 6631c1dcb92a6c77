#include "model/files/store/archive.h"

#include <algorithm>

namespace trireme {

uint64_t ArchiveToStore::memory_bytes() const {
    uint64_t bytes = 0;
    for (const Piece& p : pieces_) bytes += p.bytes();
    return bytes;
}

std::vector<StoreSet> ArchiveToStore::sets(const std::string& name) const {
    return {{name + "/values", DType::kU8, {static_cast<int64_t>(values_.size())}},
            {name + "/memory", DType::kU8, {static_cast<int64_t>(memory_bytes())}}};
}

void ArchiveToStore::write(StoreWriter& writer, size_t first, const Buffer<Space::kHost>& staging) const {
    writer.append(first, values_);
    for_pieces(staging, [&](std::span<const std::byte> bytes) { writer.append(first + 1, bytes); });
}

ArchiveFromStore::ArchiveFromStore(const StoreReader& store, const std::string& name,
                                   const Buffer<Space::kHost>& staging)
    : store_(store),
      memory_(store, store.set(name + "/memory", DType::kU8, 1)),
      staging_(staging),
      values_(store.all<std::byte>(store.set(name + "/values", DType::kU8, 1))) {}

void ArchiveFromStore::bytes(std::span<std::byte> bytes) {
    require(bytes.size() <= left(), Exit::kData, "{}: {} bytes are required, {} are left: it is of another chain",
            where(), bytes.size(), left());
    std::copy_n(values_.begin() + static_cast<std::ptrdiff_t>(at_), bytes.size(), bytes.begin());
    at_ += bytes.size();
}

void ArchiveFromStore::take(std::span<std::byte> out) {
    const auto n = static_cast<int64_t>(out.size());
    const int64_t left = memory_.set().rows() - memory_at_;
    require(n <= left, Exit::kData, "{}: {} bytes of memory are required, {} are left", where(), n, left);
    memory_.read(memory_at_, out);
    memory_at_ += n;
}

void ArchiveFromStore::memory(Stream& stream, const Tensor& tensor) {
    for (size_t at = 0; at < tensor.bytes(); at += staging_.bytes()) {
        const size_t n = std::min(staging_.bytes(), tensor.bytes() - at);
        const HostTensor from = staging_.tensor(DType::kU8, {static_cast<int64_t>(n)});
        take(std::span(static_cast<std::byte*>(from.data()), n));
        stream.copy(Tensor(static_cast<char*>(tensor.data()) + at, DType::kU8, from.shape()), from, "snapshot");
        stream.synchronize();
    }
}

void ArchiveFromStore::memory(Stream& stream, const HostTensor& tensor) {
    stream.synchronize();
    take(std::span(static_cast<std::byte*>(tensor.data()), tensor.bytes()));
}

void ArchiveFromStore::finish() const {
    const int64_t of_memory = memory_.set().rows() - memory_at_;
    require(left() == 0 && of_memory == 0, Exit::kData, "{}: {} bytes are left over: it is of another chain", where(),
            left() + static_cast<uint64_t>(of_memory));
}

}  // namespace trireme
