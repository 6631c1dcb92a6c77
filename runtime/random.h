#pragma once
/// Randomness is a function: philox4x32-10 (Salmon et al., SC'11), keyed by the seed, indexed by what the number is
/// for.

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

/// What a uniform is drawn for. Two purposes never share a number.
enum class Purpose : uint32_t { kSample = 0, kAccept = 1, kResidual = 2, kBonus = 3, kDraft = 4, kShuffle = 5 };

/// Where in a run a uniform belongs. Every field takes part: no two draws of a run have the same key.
struct DrawKey {
    uint32_t sample = 0;  // which continuation of the prompt (--num-samples); of a shuffle: the place that is filled
    uint32_t round = 0;   // of the level's own: drafting the same place again is another round
    uint32_t level = 0;   // of the chain, 0 is the full target; below 2^8
    uint32_t node = 0;    // within the round's tree; below 2^16
    Purpose purpose = Purpose::kSample;
};

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Uniform in [0, 1), 53 bits.
double uniform(uint64_t seed, const DrawKey& key);

/// What no seed says: a number that the system draws, another one for every call. `what`: for messages. Errors:
/// Exit::kOs.
uint64_t drawn_by_system(std::string_view what);

}  // namespace trireme
