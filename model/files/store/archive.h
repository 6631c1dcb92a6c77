#pragma once
/// ArchiveToStore, ArchiveFromStore: write the state of objects to a snapshot's store, and restore it (the interface is
/// runtime/archive.h). Values are one data set, "NAME/values". Tensors are another, "NAME/memory", which is written and
/// read piece by piece.

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "model/files/store/reader.h"
#include "model/files/store/writer.h"
#include "runtime/archive.h"
#include "runtime/buffer.h"

namespace trireme {

/// Collects values, and where tensors are; write() writes both. Tensors must not change until then.
class ArchiveToStore final : public Archive {
  public:
    bool loads() const override { return false; }
    void memory(Stream& stream, const Tensor& tensor) override { pieces_.push_back({&stream, tensor, {}, {}, 0}); }
    void memory(Stream& stream, const HostTensor& tensor) override { pieces_.push_back({&stream, {}, tensor, {}, 0}); }
    void produce(size_t bytes, std::function<void(void* to)> fill) override {
        pieces_.push_back({nullptr, {}, {}, std::move(fill), bytes});
    }

    /// Returns the data sets "NAME/values" and "NAME/memory", u8, with the sizes of what was collected.
    std::vector<StoreSet> sets(const std::string& name) const;
    /// Writes these two sets, which are numbers `first` and `first + 1` of the writer's. Tensors of a device pass
    /// through `staging`, host memory of any size above 0. Blocks until their streams have finished earlier work.
    void write(StoreWriter& writer, size_t first, const Buffer<Space::kHost>& staging) const;
    /// Calls body(span of bytes) with the tensors' bytes in host memory, in pieces of at most staging.bytes(). Each
    /// tensor begins a new piece. Blocks, as write().
    template <class Body>
    void for_pieces(const Buffer<Space::kHost>& staging, const Body& body) const {
        for (const Piece& p : pieces_) bring(p, staging, body);
    }
    uint64_t memory_bytes() const;                    // of all tensors
    size_t pieces() const { return pieces_.size(); }  // number of tensors

  protected:
    void bytes(std::span<std::byte> bytes) override { values_.insert(values_.end(), bytes.begin(), bytes.end()); }
    uint64_t left() const override { return 0; }
    std::string_view where() const override { return "the snapshot"; }

  private:
    /// A tensor in one of two spaces, or bytes that `fill` produces; the others are null.
    struct Piece {
        Stream* stream;
        Tensor device;
        HostTensor host;
        std::function<void(void* to)> fill;
        size_t filled;  // bytes
        size_t bytes() const { return device ? device.bytes() : host ? host.bytes() : filled; }
    };
    template <class Body>
    static void bring(const Piece& p, const Buffer<Space::kHost>& staging, const Body& body) {
        if (p.fill) {
            std::vector<std::byte> filled(p.filled);
            p.fill(filled.data());
            for (size_t at = 0; at < p.filled; at += staging.bytes()) {
                body(std::span<const std::byte>(filled).subspan(at, std::min(staging.bytes(), p.filled - at)));
            }
            return;
        }
        for (size_t at = 0; at < p.bytes(); at += staging.bytes()) {
            const auto n = static_cast<int64_t>(std::min(staging.bytes(), p.bytes() - at));
            const std::byte* from = nullptr;
            if (p.device) {
                const HostTensor to = staging.tensor(DType::kU8, {n});
                p.stream->copy(to, Tensor(static_cast<char*>(p.device.data()) + at, DType::kU8, {n}), "snapshot");
                p.stream->synchronize();
                from = static_cast<const std::byte*>(to.data());
            } else {
                if (at == 0) p.stream->synchronize();  // a copy to it may be in flight
                from = static_cast<const std::byte*>(p.host.data()) + at;
            }
            body(std::span(from, static_cast<size_t>(n)));
        }
    }

    std::vector<std::byte> values_;
    std::vector<Piece> pieces_;
};

/// Restores objects from the sets "NAME/values" and "NAME/memory". memory() blocks until its tensor is restored.
class ArchiveFromStore final : public Archive {
  public:
    /// `store` and `staging` must outlive it. Errors: Exit::kData if there are no such sets.
    ArchiveFromStore(const StoreReader& store, const std::string& name, const Buffer<Space::kHost>& staging);
    bool loads() const override { return true; }
    void memory(Stream& stream, const Tensor& tensor) override;
    void memory(Stream& stream, const HostTensor& tensor) override;
    void produce(size_t, std::function<void(void*)>) override {
        check(false, "an archive that loads produces nothing");
    }
    /// Checks that objects have read all bytes of both sets. Errors: Exit::kData.
    void finish() const;

  protected:
    void bytes(std::span<std::byte> bytes) override;
    uint64_t left() const override { return values_.size() - at_; }
    std::string_view where() const override { return store_.name(); }

  private:
    /// Reads the next bytes of the memory set.
    void take(std::span<std::byte> out);

    const StoreReader& store_;
    StoreRows memory_;  // a row is a byte
    const Buffer<Space::kHost>& staging_;
    std::vector<std::byte> values_;
    size_t at_ = 0;          // bytes of values_ that were read
    int64_t memory_at_ = 0;  // bytes of memory_ that were read
};

}  // namespace trireme
