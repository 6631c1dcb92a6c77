#pragma once
/// Digest: the XXH3 (64 bits) of bytes that are added piece by piece, with which stores detect damage.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#ifdef TRIREME_XXH3_DISPATCH
#include <xxh_x86dispatch.h>  // XXH3_64bits is the one for this CPU
#else
#include <xxhash.h>
#endif

namespace trireme {

class Digest {
  public:
    Digest() { reset(); }
    /// Begins again, without bytes.
    void reset() { XXH3_64bits_reset(state_.get()); }
    void add(std::span<const std::byte> bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
    /// Returns the digest of all bytes since reset(); more may be added afterwards.
    uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

  private:
    std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state_{XXH3_createState(), XXH3_freeState};
};

/// Returns 16 hexadecimal digits, as Keys::digest() reads them.
inline std::string hex(uint64_t digest) {
    return fmt::format("{:016x}", digest);
}

/// Returns hex() of the digest of a text.
inline std::string hex_digest(std::string_view text) {
    return hex(XXH3_64bits(text.data(), text.size()));
}

}  // namespace trireme
