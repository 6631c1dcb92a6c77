#include "decode/draft_distributions.h"

#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kDistributionBytes = sizeof(RowDistribution);

size_t row_bytes(int64_t parts, int64_t cols) {
    return static_cast<size_t>(parts * cols) * sizeof(float);
}

}  // namespace

DraftDistributions::DraftDistributions(Device& device, Level& level, int64_t n)
    : level_(level),
      n_(n),
      parts_(level.weights().shard().ranks),
      cols_(level.weights().shard().vocab_part),
      logits_(device, static_cast<size_t>(n) * row_bytes(parts_, cols_)),
      distributions_(device, static_cast<size_t>(n) * kDistributionBytes) {}

DraftDistributions::~DraftDistributions() {
    level_.stream().drain();
}

size_t DraftDistributions::bytes_for(const Shard& shard, int64_t n) {
    return static_cast<size_t>(n) * (row_bytes(shard.ranks, shard.vocab_part) + kDistributionBytes);
}

Distribution DraftDistributions::hold(int64_t slot, int64_t row) {
    check(slot >= 0 && slot < n_, "held distributions: slot {} of {}", slot, n_);
    Stream& stream = level_.stream();
    const LogitsRow from = level_.logits().row(row);
    float* to = static_cast<float*>(logits_.data()) + slot * parts_ * cols_;
    auto* distribution = static_cast<RowDistribution*>(distributions_.data()) + slot;
    const auto row_of = [&](const float* data) { return Tensor(const_cast<float*>(data), DType::kF32, {cols_}); };
    for (int64_t part = 0; part < parts_; ++part) {
        stream.copy(row_of(to + part * cols_), row_of(from.data + part * from.stride), "hold_distribution");
    }
    stream.copy(
        Tensor(distribution, DType::kI64, {kRowDistributionWords}),
        Tensor(const_cast<RowDistribution*>(level_.logits().distribution(row)), DType::kI64, {kRowDistributionWords}),
        "hold_distribution");
    return {.distribution = distribution, .row = {to, cols_, cols_}, .ready = stream.record()};
}

}  // namespace trireme
