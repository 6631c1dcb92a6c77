// Logits of the current rows: sampled, verified, saved for later samples, copied to the host.

#include <algorithm>

#include "model/level.h"
#include "runtime/error.h"

namespace trireme {

std::span<const int32_t> Level::sample(const SamplingParams& params, std::span<const double> uniforms,
                                       bool distributions) {
    const int64_t rows = logits_rows_;
    check(static_cast<int64_t>(uniforms.size()) == rows, "sample: {} uniforms for {} rows", uniforms.size(), rows);
    if (distributions) distributed_ = params;
    return draw(params, uniforms, distributions ? s_.distributions.first_rows(rows) : Tensor(), {});
}

std::span<const int32_t> Level::sample_siblings(const SamplingParams& params, std::span<const double> uniforms,
                                                std::span<const int32_t> ends) {
    const int64_t rows = logits_rows_;
    check(static_cast<int64_t>(ends.size()) == rows && std::ranges::is_sorted(ends) && ends[0] >= 0 &&
              ends.back() == static_cast<int64_t>(uniforms.size()) && ends.back() <= kMaxRows,
          "sample: {} uniforms for the siblings of {} rows", uniforms.size(), rows);
    distributed_ = params;
    std::ranges::copy(ends, static_cast<int32_t*>(s_.ends_host.data()));
    compute_->upload(s_.ends.first_rows(rows), s_.ends_host.first_rows(rows));
    return draw(params, uniforms, s_.distributions.first_rows(rows), s_.ends.first_rows(rows));
}

std::span<const int32_t> Level::draw(const SamplingParams& params, std::span<const double> uniforms,
                                     const Tensor& distributions, const Tensor& ends) {
    const auto n = static_cast<int64_t>(uniforms.size());
    auto* fractions = static_cast<int64_t*>(s_.uniforms_host.data());
    std::transform(uniforms.begin(), uniforms.end(), fractions, fraction_of);
    const Tensor ids = s_.ids.first_rows(n);
    compute_->upload(s_.uniforms.first_rows(n), s_.uniforms_host.first_rows(n));
    decode_op_->sample(ids, gathered(), config_.vocab, s_.uniforms.first_rows(n), rule_of(params), distributions, ends);
    compute_->copy(s_.ids_host.first_rows(n), ids);
    compute_->synchronize();
    return {static_cast<const int32_t*>(s_.ids_host.data()), static_cast<size_t>(n)};
}

Level::Accepted Level::accept(const SamplingParams& params, std::span<const Proposal> proposals, int64_t end) {
    const int64_t rows = end < 0 ? logits_rows_ : end, n = static_cast<int64_t>(proposals.size());
    check(n >= 1 && n <= rows && rows <= logits_rows_, "accept: {} proposals for rows up to {} of {}", n - 1, rows,
          logits_rows_);
    std::copy(proposals.begin(), proposals.end(), static_cast<Proposal*>(s_.proposals_host.data()));
    const Tensor out(s_.accepted.data(), DType::kI32, {n + 1}), distributions = s_.distributions.first_rows(rows);
    const HostTensor out_host(s_.accepted_host.data(), DType::kI32, {n + 1});
    compute_->upload(s_.proposals.first_rows(n), s_.proposals_host.first_rows(n));
    if (distributed_ != params) {
        decode_op_->sample({}, gathered(), config_.vocab, {}, rule_of(params),
                           s_.distributions.first_rows(logits_rows_));
        distributed_ = params;
    }
    decode_op_->accept(out, gathered(), distributions, s_.proposals.first_rows(n), config_.vocab);
    compute_->copy(out_host, out);
    compute_->synchronize();
    const auto* answer = static_cast<const int32_t*>(out_host.data());
    return {{answer + 2, static_cast<size_t>(answer[0])}, answer[1]};
}

LogitsRow Level::logits_row(int64_t row) const {
    const int64_t cols = shard_.vocab_part;
    return {static_cast<const float*>(gathered().data()) + row * cols, cols, padded_rows_ * cols};
}

void Level::save_logits() {
    check(logits_rows_ == 1, "save_logits: {} rows, want 1", logits_rows_);
    compute_->copy(s_.saved, gathered());
}

void Level::restore_logits() {
    set_logits_rows(1, 1);
    compute_->copy(gathered(), s_.saved);
}

void Level::state(Archive& ar, bool tiles) {
    ar.section("level");
    if (tiles || full_ == nullptr) cache_->state(ar);
    ar.memory(*compute_, s_.saved);
    ar.value(passes_);
}

HostTensor Level::logits() {
    const Tensor all = gathered();
    compute_->copy(HostTensor(s_.gathered_host.data(), DType::kF32, all.shape()), all);
    compute_->synchronize();
    if (shard_.ranks > 1) {  // [ranks, rows, part] -> [rows, vocab]
        const Matrix<float> out = s_.logits.as<float>();
        const auto* in = static_cast<const float*>(s_.gathered_host.data());
        for (int64_t rank = 0; rank < shard_.ranks; ++rank) {
            const int64_t begin = std::min(rank * shard_.vocab_part, config_.vocab);
            const int64_t n = std::min(shard_.vocab_part, config_.vocab - begin);
            for (int64_t r = 0; r < logits_rows_; ++r) {
                std::copy_n(in + (rank * padded_rows_ + r) * shard_.vocab_part, n, out.row(r) + begin);
            }
        }
    }
    return s_.logits.first_rows(logits_rows_);
}

}  // namespace trireme
