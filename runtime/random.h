#pragma once
/// Random numbers as a function of a seed and a key: philox4x32-10 (Salmon et al., SC'11). The key says what a number
/// is used for.

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

/// What a uniform is used for. Two purposes never share a number.
enum class Purpose : uint32_t { kSample = 0, kAccept = 1, kResidual = 2, kBonus = 3, kDraft = 4, kShuffle = 5 };

/// Identifies a uniform within a run. Every field counts: no two draws of a run have the same key.
struct DrawKey {
    uint32_t sample = 0;  // number of the sample (--num-samples); in a shuffle: the index that is filled
    uint32_t round = 0;   // counted by each level: drafting the same position again is another round
    uint32_t level = 0;   // of the chain; 0 is the full model; below 2^8
    uint32_t node = 0;    // in the round's tree; below 2^16
    Purpose purpose = Purpose::kSample;
};

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Returns a uniform in [0, 1) with 53 bits.
double uniform(uint64_t seed, const DrawKey& key);

/// Returns a random number of the operating system, a new one in each call. `what` begins the error message. Errors:
/// Exit::kOs.
uint64_t drawn_by_system(std::string_view what);

}  // namespace trireme
