#include "model/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/interleaved.h"
#include "model/files/dequantise.h"
#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/for_all.h"

namespace trireme {
namespace {

constexpr size_t kMostThreads = 4;                    // they read, check and convert more than most disks deliver
constexpr size_t kThreadReadBytes = size_t{2} << 20;  // read by a thread at a time
constexpr size_t kThreadTileBytes = size_t{1} << 18;  // of tiles: a cache holds them until they are interleaved
constexpr size_t kStagingBytes = size_t{16} << 20;

/// Rows [begin, begin + n) of a piece.
struct WeightPart {
    const WeightPiece* piece;
    int64_t begin, n;
};

/// Cuts rows [begin, begin + n) of a piece into parts of about kThreadReadBytes. A part ends with a group of rows that
/// the checkpoint reads together, or with a tile.
void cut(const WeightPiece& piece, int64_t begin, int64_t n, int64_t together, std::vector<WeightPart>& out) {
    const int64_t end = begin + n;
    const bool tiles = piece.placing == Placing::kTiles;
    const auto fit = static_cast<int64_t>((tiles ? kThreadTileBytes : kThreadReadBytes) / piece.row_bytes());
    const bool by_tile = tiles && together == 1;
    const int64_t group = by_tile ? kInterleaved : together, first = by_tile ? piece.tile_row : piece.row0;
    while (begin < end) {
        const int64_t past = (first + begin + std::max(fit, group)) / group * group - first;
        const int64_t next = std::clamp(past, begin + 1, end);
        out.push_back({&piece, begin, next - begin});
        begin = next;
    }
}

class Loader {
  public:
    Loader(const WeightSource& source, std::span<const WeightPiece> pieces,
           const std::function<void(int64_t, int64_t)>& progress)
        : source_(source), pieces_(pieces), progress_(progress) {
        for (const WeightPiece& p : pieces) {
            check(p.to.contiguous(), "{}: rows that lie apart are not loaded", p.name);
            total_ += static_cast<int64_t>(p.bytes());
        }
    }

    /// Loads into memory that the host can access.
    void load_in_place() {
        std::vector<WeightPart> parts;
        for (const WeightPiece& p : pieces_) {
            if (p.bytes() > 0) cut(p, 0, p.rows(), source_.rows_together(p.name), parts);
        }
        read(parts, [](const WeightPart& part) {
            const Tensor to = part.piece->to.slice_rows(part.begin, part.n);
            return HostTensor(to.data(), to.dtype(), to.shape());
        });
    }

    /// Loads through two pinned buffers: one is filled from the file while the other one is copied to the device.
    void load_staged(Device& device, Stream& stream) {
        struct Slot {
            Buffer<Space::kHost> buffer;
            Event free;
        } slots[2];
        for (Slot& slot : slots) slot.buffer = Buffer<Space::kHost>(device, kStagingBytes);
        // A bad tensor throws while the previous copy may be in flight.
        const std::unique_ptr<Stream, void (*)(Stream*)> drained(&stream, [](Stream* s) { s->drain(); });
        size_t turn = 0;
        for (const WeightPiece& p : pieces_) {
            if (p.bytes() == 0) continue;
            const size_t row = p.row_bytes();
            check(p.placing != Placing::kTiles, "{}: tiles on a device whose memory the host does not reach", p.name);
            check(row <= kStagingBytes, "{}: a row of {} bytes does not fit the staging buffer", p.name, row);
            const int64_t step = std::min(p.to.rows(), static_cast<int64_t>(kStagingBytes / row));
            for (int64_t r = 0; r < p.to.rows(); r += step) {
                const int64_t n = std::min(step, p.to.rows() - r);
                Slot& slot = slots[turn++ % 2];
                if (slot.free.stream != nullptr) stream.synchronize(slot.free);
                const HostTensor host =
                    slot.buffer.tensor(p.to.dtype(), p.to.shape().rank() == 1 ? Shape{n} : Shape{n, p.to.cols()});
                std::vector<WeightPart> parts;
                cut(p, r, n, source_.rows_together(p.name), parts);
                read(parts, [&](const WeightPart& part) { return host.slice_rows(part.begin - r, part.n); });
                stream.copy(p.to.slice_rows(r, n), host);
                slot.free = stream.record();
            }
        }
    }

  private:
    template <class Place>
    void read(const std::vector<WeightPart>& parts, const Place& place) {
        const std::thread::id caller = std::this_thread::get_id();
        for_all(parts.size(), kMostThreads, [&](size_t i) {
            const WeightPart& part = parts[i];
            const WeightPiece& p = *part.piece;
            const size_t bytes = static_cast<size_t>(part.n) * p.row_bytes();
            if (p.placing == Placing::kTiles) {
                thread_local std::vector<std::byte> all;
                if (all.size() < bytes) all.resize(bytes);
                const std::span<std::byte> blocks = std::span(all).first(bytes);
                source_.read_blocks(p.name, p.row0 + part.begin, part.n, p.col0, blocks);
                interleave(p.type, blocks, p.to.cols(), static_cast<std::byte*>(p.to.data()), p.tile_row + part.begin);
                return finish(bytes, caller);
            }
            const HostTensor to = place(part);
            if (p.placing == Placing::kBlocks) {
                const std::span<std::byte> blocks(static_cast<std::byte*>(to.data()), bytes);
                source_.read_blocks(p.name, p.row0 + part.begin, part.n, p.col0, blocks);
                if (p.as_f16) check_f16(part, blocks);
            } else {
                source_.read(p.name, p.row0 + part.begin, p.col0, to);
            }
            finish(bytes, caller);
        });
        if (progress_) progress_(done_, total_);
    }

    /// Errors: as WeightSource::read, for values beyond the range of f16.
    void check_f16(const WeightPart& part, std::span<const std::byte> blocks) {
        const WeightPiece& p = *part.piece;
        const TensorInfo& info = source_.info(p.name);
        const BlockLayout layout = layout_of(info.type);
        const auto n = static_cast<int64_t>(blocks.size() / layout.bytes) * layout.elements;
        if (surely_fit_f16(info.type, blocks.data(), n)) return;
        std::vector<f16> values(static_cast<size_t>(info.shape[1]));
        for (int64_t r = 0; r < part.n; ++r) {
            source_.read(p.name, p.row0 + part.begin + r, 0,
                         HostTensor(values.data(), DType::kF16, Shape{1, info.shape[1]}));
        }
    }

    /// Counts a part. Progress is reported on the calling thread.
    void finish(size_t bytes, std::thread::id caller) {
        done_ += static_cast<int64_t>(bytes);
        if (progress_ && std::this_thread::get_id() == caller) progress_(done_, total_);
    }

    const WeightSource& source_;
    std::span<const WeightPiece> pieces_;
    const std::function<void(int64_t, int64_t)>& progress_;
    std::atomic<int64_t> done_ = 0;
    int64_t total_ = 0;
};

}  // namespace

void load_pieces(Device& device, Stream& stream, const WeightSource& source, std::span<const WeightPiece> pieces,
                 const std::function<void(int64_t, int64_t)>& progress) {
    Loader loader(source, pieces, progress);
    if (device.host_reaches_memory()) {
        loader.load_in_place();
    } else {
        loader.load_staged(device, stream);
    }
}

}  // namespace trireme
