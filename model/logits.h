#pragma once
/// Logits: the logits of a forward's rows, on every rank: computed, sampled, verified, saved, copied to the host.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "dist/comm.h"
#include "model/residual.h"
#include "model/scratch.h"
#include "model/weights.h"
#include "runtime/archive.h"
#include "runtime/stream.h"

namespace trireme {

class Logits {
  public:
    /// `op`: a level's decode kernels, which always compute the logits. All arguments must outlive the object.
    Logits(const Weights& weights, Comm& comm, Stream& stream, Kernels& op, Scratch& scratch)
        : weights_(weights), comm_(comm), stream_(stream), op_(op), s_(scratch) {}

    /// Copies the logits to the host and waits for them. Returns f32 [rows, vocab], valid until the next forward.
    HostTensor host();
    /// Samples a token for every row on the device, and waits for the ids; valid until the next call. `uniforms`
    /// [rows], in [0, 1). All ranks sample the same tokens. The last argument requests the rows' distributions as well.
    /// Errors: Exit::kData if logits are not finite.
    std::span<const int32_t> sample(const SamplingParams& params, std::span<const double> uniforms,
                                    bool distributions = false);
    /// Like sample(), but row r samples siblings: tokens [ends[r - 1], ends[r]), at most kMaxRows in all, with a
    /// uniform for each. A token comes from the row's distribution without its earlier siblings; at temperature 0 they
    /// are the likeliest in order. -1 if nothing is left. Computes all rows' distributions.
    std::span<const int32_t> sample_siblings(const SamplingParams& params, std::span<const double> uniforms,
                                             std::span<const int32_t> ends);
    /// The result of verifying a proposal. The logits' last rows before row `end` are those of the sequence's last
    /// token and of the proposed tokens.
    struct Accepted {
        std::span<const int32_t> accepted;  // tokens: a path of indices into the proposed tokens
        int32_t next;                       // the token that was sampled after them
    };
    /// Accepts or rejects on the device and waits for the result; valid until the next call. proposals[0] represents
    /// the sequence's last token (Proposal). `end`: see Accepted; -1: all rows. Several proposals may be verified one
    /// after the other; the rows' distributions are computed once. All ranks decide alike. Errors: as sample().
    Accepted accept(const SamplingParams& params, std::span<const Proposal> proposals, int64_t end = -1);
    /// Row `row` on the device; and its distribution, once sample() on request, sample_siblings() or accept() has
    /// computed it.
    LogitsRow row(int64_t row) const;
    const RowDistribution* distribution(int64_t row) const {
        return static_cast<const RowDistribution*>(s_.distributions.data()) + row;
    }
    /// save() copies the logits, which must be one row; restore() makes that copy current again. state() serialises it.
    void save();
    void restore();
    void state(Archive& ar) { ar.memory(stream_, s_.saved); }

    /// For forwards: sets the number of the rows that follow, and with padding; then computes them from the padded
    /// rows' residual stream.
    void set_rows(int64_t rows, int64_t padded) {
        rows_ = rows;
        padded_ = padded;
        distributed_.reset();
    }
    void compute(Residual& x);

  private:
    std::span<const int32_t> draw(const SamplingParams& params, std::span<const double> uniforms,
                                  const Tensor& distributions, const Tensor& ends);
    /// [ranks, padded rows, vocab_part].
    Tensor gathered() const {
        const Shard& shard = weights_.shard();
        return Tensor(s_.gathered.data(), DType::kF32, {shard.ranks, padded_, shard.vocab_part});
    }
    int64_t vocab() const { return weights_.config().vocab; }

    const Weights& weights_;
    Comm& comm_;
    Stream& stream_;
    Kernels& op_;
    Scratch& s_;
    int64_t rows_ = 0, padded_ = 0;              // rows of the last forward; with padding (graph_rows)
    std::optional<SamplingParams> distributed_;  // parameters of the distributions of these rows; none: not computed
};

}  // namespace trireme
