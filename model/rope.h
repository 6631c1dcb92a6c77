#pragma once
/// Rotary position embedding: a checkpoint's settings, frequencies, and the cosines and sines of a position.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

/// How rotary frequencies are stretched to contexts longer than the pretrained one. Named as in config.json.
enum class RopeScaling { kNone, kLinear, kDynamic, kYarn, kLlama3 };

/// "none", "linear", "dynamic", "yarn", "llama3".
std::string_view name_of(RopeScaling scaling);

struct RopeConfig {
    double theta = 10000;
    RopeScaling scaling = RopeScaling::kNone;
    double factor = 1;
    int64_t original_context = 0;                      // tokens of pretraining; dynamic, yarn and llama3 read it
    double beta_fast = 32, beta_slow = 1;              // yarn: rotations over the original context that bound the ramp
    bool truncate = true;                              // yarn: the ramp's ends are rounded to whole pairs
    double attention_factor = 0;                       // yarn: scale of cos and sin; 0: 0.1 ln(factor) + 1
    double low_freq_factor = 1, high_freq_factor = 4;  // llama3
    std::vector<float> factors = {};  // GGUF `rope_freqs.weight`: divisor per pair, [head_dim / 2] or empty
};

/// Frequencies of the head_dim / 2 pairs, and the factor of cos and sin.
struct RopeTable {
    std::vector<float> inv_freq;
    float attention_scale = 1;
};

/// Returns the table of a checkpoint, computed in f32 in the order of transformers. Only dynamic scaling uses `length`
/// (tokens).
RopeTable rope_table(const RopeConfig& rope, int64_t head_dim, int64_t length);
/// Like the above, but reuses the memory of `table`: dynamic scaling makes a table for every token.
void rope_table(const RopeConfig& rope, int64_t head_dim, int64_t length, RopeTable& table);

/// Computes cosines and sines of a row's position. Angles are f32 products as in transformers. The table of dynamic
/// scaling depends on the row's length; the others are made once.
class Rope {
  public:
    Rope(const RopeConfig& config, int64_t head_dim);
    /// out: f32 [head_dim], cosines of the pairs, then sines. `length`: the sequence's length for dynamic scaling, in
    /// tokens.
    void fill(std::span<float> out, int64_t position, int64_t length);
    /// Like fill(), for a rotation of keys forward by `positions`: the same angles, not scaled. With dynamic scaling
    /// this holds only up to the trained length.
    void turn(std::span<float> out, int64_t positions);

  private:
    void rotate(std::span<float> out, int64_t position, float scale) const;

    RopeConfig config_;
    int64_t head_dim_, table_length_ = -1;
    RopeTable table_;
};

}  // namespace trireme
