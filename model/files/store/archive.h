#pragma once
/// Archives (runtime/archive.h) in stores. Values go to one data set. Tensors, of host memory or a device's, go to
/// another one, which is read and written piece by piece.

#include <string>
#include <vector>

#include "model/files/store/reader.h"
#include "model/files/store/writer.h"
#include "runtime/archive.h"
#include "runtime/buffer.h"

namespace trireme {

/// Collects the state of objects and writes it later; tensors must not change until then.
class ArchiveToStore final : public Archive {
  public:
    bool loads() const override { return false; }
    void memory(Stream& stream, const Tensor& tensor) override { pieces_.push_back({&stream, tensor, {}}); }
    void memory(Stream& stream, const HostTensor& tensor) override { pieces_.push_back({&stream, {}, tensor}); }

    /// Returns the data sets "NAME/values" and "NAME/memory", u8.
    std::vector<StoreSet> sets(const std::string& name) const;
    /// Writes these sets; the first one is number `first` of the writer's. `staging`: host memory of the device.
    void write(StoreWriter& writer, size_t first, const Buffer<Space::kHost>& staging) const;
    /// Passes the bytes of the tensors to `body`, piece by piece, on the host.
    template <class Body>
    void for_pieces(const Buffer<Space::kHost>& staging, const Body& body) const {
        for (const Piece& p : pieces_) bring(p, staging, body);
    }
    uint64_t memory_bytes() const;
    size_t pieces() const { return pieces_.size(); }

  protected:
    void bytes(std::span<std::byte> bytes) override { values_.insert(values_.end(), bytes.begin(), bytes.end()); }
    uint64_t left() const override { return 0; }
    std::string_view where() const override { return "the snapshot"; }

  private:
    struct Piece {
        Stream* stream;
        Tensor device;    // either this
        HostTensor host;  // or this
        size_t bytes() const { return device ? device.bytes() : host.bytes(); }
    };
    template <class Body>
    static void bring(const Piece& p, const Buffer<Space::kHost>& staging, const Body& body) {
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

/// Restores objects from the sets "NAME/values" and "NAME/memory".
class ArchiveFromStore final : public Archive {
  public:
    /// Errors: Exit::kData if there are no such sets.
    ArchiveFromStore(const StoreReader& store, const std::string& name, const Buffer<Space::kHost>& staging);
    bool loads() const override { return true; }
    void memory(Stream& stream, const Tensor& tensor) override;
    void memory(Stream& stream, const HostTensor& tensor) override;
    /// Checks that all of it has been read. Errors: Exit::kData.
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
    size_t at_ = 0;  // in values_
    int64_t memory_at_ = 0;
};

}  // namespace trireme
