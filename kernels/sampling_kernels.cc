#include "kernels/sampling_kernels.h"

#include "kernels/acceptance.h"
#include "kernels/operand_checks.h"

namespace trireme {

namespace {

void check_logits(const char* op, const Tensor& logits, int64_t vocab, int64_t most) {
    check_rank(op, "logits", logits, 3);
    check_operand(op, "logits", logits, DType::kF32, logits.shape());
    check(logits.contiguous() && vocab >= 1 && vocab <= logits.dim(0) * logits.dim(2) && vocab <= most,
          "{}: {} ids in logits {}, the limit is {}", op, vocab, logits.shape(), most);
}

}  // namespace

void SamplingKernels::sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                             const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) {
    check_logits("sample", logits, vocab, vocab_);
    const int64_t rows = sampled_rows(ids, distributions, ends);
    check(rows <= logits.dim(1), "sample: {} rows of logits {}", rows, logits.shape());
    if (distributions.data() != nullptr)
        check_operand("sample", "distributions", distributions, DType::kI64, Shape{rows, kRowDistributionWords});
    int64_t drawn = rows;
    if (ends.data() != nullptr) {
        check_operand("sample", "ends", ends, DType::kI32, Shape{rows});
        drawn = ids.rows();
        check(drawn <= kMaxRows, "sample: {} siblings, at most {}", drawn, kMaxRows);
    }
    if (ids.data() != nullptr || distributions.data() == nullptr || ends.data() != nullptr) {
        check_operand("sample", "ids", ids, DType::kI32, Shape{drawn});
        check_operand("sample", "uniforms", uniforms, DType::kI64, Shape{drawn});
    }
    if (rows > 0) do_sample(ids, logits, vocab, uniforms, rule, distributions, ends);
}

void SamplingKernels::accept(const Tensor& out, const Tensor& logits, const Tensor& distributions,
                             const Tensor& proposals, int64_t vocab) {
    check_logits("accept", logits, vocab, vocab_);
    check_rank("accept", "distributions", distributions, 2);
    check_rank("accept", "proposals", proposals, 2);
    const int64_t n = proposals.rows(), rows = distributions.rows();
    check(n >= 1 && n <= rows && rows <= kMaxRows && rows <= logits.dim(1),
          "accept: {} proposals in {} rows of logits {}, want 1 to {} of them", n, rows, logits.shape(), kMaxRows);
    check_operand("accept", "distributions", distributions, DType::kI64, Shape{rows, kRowDistributionWords});
    check_operand("accept", "proposals", proposals, DType::kI64, Shape{n, kProposalWords});
    check_operand("accept", "out", out, DType::kI32, Shape{n + 1});
    do_accept(out, logits, distributions, proposals, vocab);
}

}  // namespace trireme
