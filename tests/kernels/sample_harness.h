#pragma once
/// Samples from rows of logits with the machine's kernels.

#include <limits>
#include <vector>

#include "runtime/random.h"
#include "tests/kernels/harness.h"

namespace trireme::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr double kLargestUniform = 1 - 0x1p-53;
inline constexpr double kClose = 1e-5;  // error of a probability: f32 exponentials and logits are off by about 1e-6

using Logits = std::vector<float>;
using Uniforms = std::vector<double>;
using Ids = std::vector<int32_t>;

inline SamplingParams off(double temperature = 1) {
    return {.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0};
}

struct Drawn {
    std::vector<Ids> siblings;  // by row
    std::vector<RowDistribution> distributions;
};

/// `rows` rows of logits as `parts` ranks hold them, [parts * rows, cols]: row r is `logits[r % logits.size()]`.
/// Elements beyond the vocabulary are NaN.
inline Operand divided(const std::vector<Logits>& logits, int64_t rows, int64_t parts) {
    const auto vocab = static_cast<int64_t>(logits[0].size());
    const int64_t cols = (vocab + parts - 1) / parts + (parts > 1 ? 3 : 0);
    Operand in(DType::kF32, parts * rows, cols);
    for (int64_t part = 0; part < parts; ++part) {
        for (int64_t r = 0; r < rows; ++r) {
            const Logits& row = logits[static_cast<size_t>(r) % logits.size()];
            for (int64_t c = 0; c < cols; ++c) {
                const int64_t id = part * cols + c;
                in.at<float>(part * rows + r, c) = id < vocab ? row[static_cast<size_t>(id)] : std::nanf("");
            }
        }
    }
    return in;
}
inline Tensor by_part(Operand& in, int64_t parts) {
    const Tensor t = in.tensor();
    return Tensor(t.data(), DType::kF32, Shape{parts, t.dim(0) / parts, t.dim(1)});
}

/// Samples siblings from the rows of divided(): one for each uniform in u[r], from row r.
inline Drawn drawn(const std::vector<Logits>& logits, const SamplingParams& params, const std::vector<Uniforms>& u,
                   int64_t parts = 1) {
    const auto vocab = static_cast<int64_t>(logits[0].size()), rows = static_cast<int64_t>(u.size());
    Machine m;
    Operand in = divided(logits, rows, parts), distributions(DType::kI64, rows, kRowDistributionWords);
    Ids end_of;
    Uniforms flat;
    for (const Uniforms& row : u) {
        flat.insert(flat.end(), row.begin(), row.end());
        end_of.push_back(static_cast<int32_t>(flat.size()));
    }
    Operand uniforms(DType::kI64, static_cast<int64_t>(flat.size()), 1), ids = Operand::ids(Ids(flat.size(), -7)),
                                                                         ends = Operand::ids(end_of);
    for (size_t i = 0; i < flat.size(); ++i) uniforms.at<int64_t>(static_cast<int64_t>(i), 0) = fraction_of(flat[i]);

    m->sample(ids.vector(), by_part(in, parts), vocab, uniforms.vector(), rule_of(params), distributions.tensor(),
              ends.vector());
    m.stream->synchronize();

    EXPECT_TRUE(ids.intact() && distributions.intact());
    Drawn out;
    int64_t next = 0;
    for (const Uniforms& row : u) {
        Ids& of_row = out.siblings.emplace_back();
        for (size_t i = 0; i < row.size(); ++i) of_row.push_back(ids.at<int32_t>(next++, 0));
        out.distributions.push_back(
            *reinterpret_cast<const RowDistribution*>(&distributions.at<int64_t>(out.distributions.size(), 0)));
    }
    return out;
}
inline Ids siblings(const Logits& logits, const SamplingParams& params, const Uniforms& u, int64_t parts = 1) {
    return drawn({logits}, params, {u}, parts).siblings[0];
}

}  // namespace trireme::test
