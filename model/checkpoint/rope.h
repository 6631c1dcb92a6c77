#pragma once
/// Rotary position embedding: a checkpoint's settings, frequencies, and the cosines and sines of a position.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace trireme {

/// How rotary frequencies are stretched to contexts longer than the pretrained one. Named as in config.json.
enum class RopeScaling { kNone, kLinear, kDynamic, kYarn, kLlama3, kLongrope };

/// "none", "linear", "dynamic", "yarn", "llama3", "longrope".
std::string_view name_of(RopeScaling scaling);

struct RopeConfig {
    double theta = 10000;
    int64_t rotary_dim = 0;  // elements of a head that rotate, the first ones; 0: all
    RopeScaling scaling = RopeScaling::kNone;
    double factor = 1;
    int64_t original_context = 0;          // tokens of pretraining; all but none and linear read it
    double beta_fast = 32, beta_slow = 1;  // yarn: rotations over the original context that bound the ramp
    bool truncate = true;                  // yarn: the ramp's ends are rounded to whole pairs
    double attention_factor = 0;           // yarn, longrope: scale of cos and sin; yarn, 0: 0.1 ln(factor) + 1
    double low_freq_factor = 1, high_freq_factor = 4;  // llama3
    // Divisor of each pair's frequency, [rotary_dim / 2] or empty: GGUF `rope_freqs.weight`, or longrope's chosen ones.
    std::vector<float> factors = {};
    std::vector<float> short_factors = {}, long_factors = {};  // longrope, [rotary_dim / 2]

    /// Elements of a head that rotate.
    int64_t dim(int64_t head_dim) const { return rotary_dim > 0 ? rotary_dim : head_dim; }
    /// Longrope: chooses the long factors for a run whose context is longer than the original one, else the short ones.
    /// The choice holds for the whole run, so cached keys stay valid (transformers changes it in the middle of a text).
    void choose_factors(int64_t context) {
        if (scaling == RopeScaling::kLongrope) factors = context > original_context ? long_factors : short_factors;
    }
};

/// Frequencies of the rotary_dim / 2 pairs, and the factor of cos and sin.
struct RopeTable {
    std::vector<float> inv_freq;
    float attention_scale = 1;
};

/// Longrope's scale of cos and sin: sqrt(1 + ln(factor) / ln(original)), and 1 for a factor of 1 or less.
double longrope_scale(double factor, int64_t original_context);

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
    /// out: f32 [head_dim], cosines of the pairs (i, i + head_dim / 2), then sines. Pairs that do not rotate have 1 and
    /// 0: Weights orders a head's rows so that the rotated ones are pairs. `length`: the sequence's length for dynamic
    /// scaling, in tokens.
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
