#include "model/logits.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {

std::span<const int32_t> Logits::sample(const SamplingParams& params, std::span<const double> uniforms,
                                        bool distributions) {
    const int64_t rows = rows_;
    check(static_cast<int64_t>(uniforms.size()) == rows, "sample: {} uniforms for {} rows", uniforms.size(), rows);
    if (distributions) distributed_ = params;
    return draw(params, uniforms, distributions ? s_.distributions.first_rows(rows) : Tensor(), {});
}

std::span<const int32_t> Logits::sample_siblings(const SamplingParams& params, std::span<const double> uniforms,
                                                 std::span<const int32_t> ends) {
    const int64_t rows = rows_;
    check(static_cast<int64_t>(ends.size()) == rows && std::ranges::is_sorted(ends) && ends[0] >= 0 &&
              ends.back() == static_cast<int64_t>(uniforms.size()) && ends.back() <= kMaxRows,
          "sample: {} uniforms for the siblings of {} rows", uniforms.size(), rows);
    distributed_ = params;
    std::ranges::copy(ends, static_cast<int32_t*>(s_.ends_host.data()));
    stream_.upload(s_.ends.first_rows(rows), s_.ends_host.first_rows(rows));
    return draw(params, uniforms, s_.distributions.first_rows(rows), s_.ends.first_rows(rows));
}

std::span<const int32_t> Logits::draw(const SamplingParams& params, std::span<const double> uniforms,
                                      const Tensor& distributions, const Tensor& ends) {
    const auto n = static_cast<int64_t>(uniforms.size());
    auto* fractions = static_cast<int64_t*>(s_.uniforms_host.data());
    std::transform(uniforms.begin(), uniforms.end(), fractions, fraction_of);
    const Tensor ids = s_.ids.first_rows(n);
    stream_.upload(s_.uniforms.first_rows(n), s_.uniforms_host.first_rows(n));
    op_.sample(ids, gathered(), vocab(), s_.uniforms.first_rows(n), rule_of(params), distributions, ends);
    stream_.copy(s_.ids_host.first_rows(n), ids);
    stream_.synchronize();
    return {static_cast<const int32_t*>(s_.ids_host.data()), static_cast<size_t>(n)};
}

Logits::Accepted Logits::accept(const SamplingParams& params, std::span<const Proposal> proposals, int64_t end) {
    const int64_t rows = end < 0 ? rows_ : end, n = static_cast<int64_t>(proposals.size());
    check(n >= 1 && n <= rows && rows <= rows_, "accept: {} proposals for rows up to {} of {}", n - 1, rows, rows_);
    std::copy(proposals.begin(), proposals.end(), static_cast<Proposal*>(s_.proposals_host.data()));
    const Tensor out(s_.accepted.data(), DType::kI32, {n + 1}), distributions = s_.distributions.first_rows(rows);
    const HostTensor out_host(s_.accepted_host.data(), DType::kI32, {n + 1});
    stream_.upload(s_.proposals.first_rows(n), s_.proposals_host.first_rows(n));
    if (distributed_ != params) {
        op_.sample({}, gathered(), vocab(), {}, rule_of(params), s_.distributions.first_rows(rows_));
        distributed_ = params;
    }
    op_.accept(out, gathered(), distributions, s_.proposals.first_rows(n), vocab());
    stream_.copy(out_host, out);
    stream_.synchronize();
    const auto* answer = static_cast<const int32_t*>(out_host.data());
    return {{answer + 2, static_cast<size_t>(answer[0])}, answer[1]};
}

LogitsRow Logits::row(int64_t row) const {
    const int64_t cols = weights_.shard().vocab_part;
    return {static_cast<const float*>(gathered().data()) + row * cols, cols, padded_ * cols};
}

void Logits::save() {
    check(rows_ == 1, "save: {} rows, want 1", rows_);
    stream_.copy(s_.saved, gathered());
}

void Logits::restore() {
    set_rows(1, 1);
    stream_.copy(gathered(), s_.saved);
}

HostTensor Logits::host() {
    const Shard& shard = weights_.shard();
    const Tensor all = gathered();
    stream_.copy(HostTensor(s_.gathered_host.data(), DType::kF32, all.shape()), all);
    stream_.synchronize();
    if (shard.ranks > 1) {  // [ranks, rows, part] -> [rows, vocab]
        const Matrix<float> out = s_.logits.as<float>();
        const auto* in = static_cast<const float*>(s_.gathered_host.data());
        for (int64_t rank = 0; rank < shard.ranks; ++rank) {
            const int64_t begin = std::min(rank * shard.vocab_part, vocab());
            const int64_t n = std::min(shard.vocab_part, vocab() - begin);
            for (int64_t r = 0; r < rows_; ++r) {
                std::copy_n(in + (rank * padded_ + r) * shard.vocab_part, n, out.row(r) + begin);
            }
        }
    }
    return s_.logits.first_rows(rows_);
}

// logits = lm_head norm(x) of at most kMaxRows rows, on every rank's device. The decode kernels always compute them.
void Logits::compute(Residual& x) {
    const Shard& shard = weights_.shard();
    const int64_t rows = x.rows();
    const Tensor last = op_.input_of(s_.last.first_rows(rows), weights_.lm_head), part = s_.part.first_rows(rows);

    x.norm(op_, last, weights_.final_norm, static_cast<float>(weights_.config().norm_eps));
    op_.matmul(part.slice_cols(0, shard.vocab), last, weights_.lm_head);
    if (shard.ranks > 1) comm_.all_gather(stream_, gathered(), part);
}

}  // namespace trireme
