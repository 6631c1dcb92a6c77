#include "runtime/random.h"

#include <sys/random.h>

#include "runtime/error.h"

namespace trireme {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
        c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(b),
             static_cast<uint32_t>(a >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(a)};
        k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
    }
    return c;
}

double uniform(uint64_t seed, const DrawKey& d) {
    check(d.level < 256 && d.node < 65536, "draw key: level {} or node {} out of range", d.level, d.node);
    const std::array<uint32_t, 4> bits =
        philox4x32({d.sample, d.round, (d.level << 16) | d.node, static_cast<uint32_t>(d.purpose)},
                   {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
    const uint64_t mantissa = (uint64_t{bits[0]} << 21) ^ (bits[1] >> 11);
    return static_cast<double>(mantissa & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

uint64_t drawn_by_system(std::string_view what) {
    uint64_t number = 0;
    require(::getrandom(&number, sizeof number, 0) == sizeof number, Exit::kOs, "{}: the system gives no random number",
            what);
    return number;
}

}  // namespace trireme
