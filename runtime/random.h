#pragma once
/// Random numbers as a function of a seed and a key: philox4x32-10 (Salmon et al., SC'11). The key says what a number
/// is used for, so a resumed run draws the same numbers.

#include <array>
#include <cstdint>
#include <string_view>

namespace trireme {

/// What a uniform is used for. Two purposes never share a number. Drafters draw kSample, at their level.
enum class Purpose : uint32_t { kSample = 0, kAccept = 1, kResidual = 2, kSibling = 3, kShuffle = 5 };

/// Identifies a uniform within a run. Every field counts: no two draws of a run have the same key. In a shuffle, sample
/// and round are the lower and upper half of the index that is filled.
struct DrawKey {
    uint32_t sample = 0;  // number of the sample (--num-samples); in a conversation: of the turn
    uint32_t round = 0;   // counted by each level: drafting the same position again is another round
    uint32_t level = 0;   // of the chain; 0 is the full model; below 2^8
    uint32_t node = 0;    // index of the proposed token in its round or tree; below 2^16
    Purpose purpose = Purpose::kSample;
};

/// The generator: 128 random bits of a counter and a key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Returns a uniform in [0, 1) with 53 bits. `seed`: the run's (--seed), or that of a shuffle.
double uniform(uint64_t seed, const DrawKey& key);

/// Returns a random number of the operating system, a new one in each call: a seed, or the id of a file. `what` begins
/// the error message. Errors: Exit::kOs.
uint64_t drawn_by_system(std::string_view what);

}  // namespace trireme
