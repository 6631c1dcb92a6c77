#pragma once
/// TileCoder: encodes and decodes KV tiles (kernels/tile_code.h) on a device.

#include <cstdint>
#include <memory>

#include "kernels/kv.h"
#include "kernels/tile_code.h"
#include "runtime/device.h"
#include "runtime/registry.h"
#include "runtime/stream.h"

namespace trireme {

/// Encodes and decodes tiles of one layout on one stream. Calls enqueue and return.
class TileCoder {
  public:
    virtual ~TileCoder() = default;

    const TileCode& code() const { return code_; }
    /// Encodes tiles [n, tile_bytes] to coded ones [n, code().bytes]. counts, u32 [n]: the escapes of each tile; the
    /// code of a tile with more than code().capacity is not valid. All in device memory; tiles are aligned to 64 bytes.
    virtual void encode(char* coded, uint32_t* counts, const char* plain, int64_t n) = 0;
    /// The inverse. Any bytes are decoded to some tile.
    virtual void decode(char* plain, const char* coded, int64_t n) = 0;

  protected:
    explicit TileCoder(const KvLayout& layout) : code_(tile_code(layout)), plain_bytes_(layout.tile_bytes()) {}
    size_t plain_bytes() const { return plain_bytes_; }
    /// Bytes that coding or decoding n tiles reads and writes, for traces.
    size_t moved(int64_t n) const { return static_cast<size_t>(n) * (plain_bytes_ + static_cast<size_t>(code_.bytes)); }

  private:
    TileCode code_;
    size_t plain_bytes_;
};

/// Factories for registered devices, by backend name.
using TileCoderMaker = std::unique_ptr<TileCoder> (*)(Device& device, Stream& stream, const KvLayout& layout);
Registry<TileCoderMaker>& tile_coder_makers();
/// Makes the coder of the device's backend. `stream` must outlive the object.
std::unique_ptr<TileCoder> make_tile_coder(Device& device, Stream& stream, const KvLayout& layout);

}  // namespace trireme
