#include "kernels/cuda/multiply.h"

#include "kernels/cuda/alignment.h"
#include "kernels/cuda/scratch.h"
#include "runtime/cuda/call.h"
#include "runtime/error.h"

namespace trireme::gpu {
namespace {

void blas(cublasStatus_t status, const char* call) {
    require(status == CUBLAS_STATUS_SUCCESS, Exit::kUnavailable, "{}: {}", call, cublasLtGetStatusString(status));
}

cudaDataType_t cuda_type(DType type) {
    return type == DType::kF32 ? CUDA_R_32F : type == DType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
}

/// A column-major matrix, as the library requires: our row-major matrix is its transpose.
cublasLtMatrixLayout_t layout(DType type, int64_t rows, int64_t cols, int64_t leading) {
    cublasLtMatrixLayout_t made = nullptr;
    blas(cublasLtMatrixLayoutCreate(&made, cuda_type(type), static_cast<uint64_t>(rows), static_cast<uint64_t>(cols),
                                    leading),
         "cublasLtMatrixLayoutCreate");
    return made;
}

}  // namespace

struct Multiply::Plan {
    cublasLtMatmulDesc_t product = nullptr;
    cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
    cublasLtMatmulAlgo_t algorithm{};

    ~Plan() {
        if (product != nullptr) cublasLtMatmulDescDestroy(product);
        for (const cublasLtMatrixLayout_t l : {w, x, out}) {
            if (l != nullptr) cublasLtMatrixLayoutDestroy(l);
        }
    }
};

Multiply::Multiply(Device& device) : workspace_(device, kMultiplyWorkspace) {
    blas(cublasLtCreate(&handle_), "cublasLtCreate");
}

Multiply::~Multiply() {
    if (!cards_given_up()) cublasLtDestroy(handle_);
}

Multiply::Plan& Multiply::plan(const Key& key) {
    std::unique_ptr<Plan>& known = plans_[key];
    if (known) return *known;
    auto fresh = std::make_unique<Plan>();
    // out^T [n, rows] = w [n, k] x^T [k, rows], all column-major: w is read transposed.
    blas(cublasLtMatmulDescCreate(&fresh->product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    blas(cublasLtMatmulDescSetAttribute(fresh->product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
         "cublasLtMatmulDescSetAttribute");
    fresh->w = layout(key.type, key.k, key.n, key.k);
    fresh->x = layout(key.type, key.k, key.rows, key.x_stride);
    fresh->out = layout(DType::kF32, key.n, key.rows, key.out_stride);

    cublasLtMatmulPreference_t wishes = nullptr;
    blas(cublasLtMatmulPreferenceCreate(&wishes), "cublasLtMatmulPreferenceCreate");
    const auto wish = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
        blas(cublasLtMatmulPreferenceSetAttribute(wishes, what, &value, sizeof value), "cublasLtMatmulPreferenceSet");
    };
    wish(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMultiplyWorkspace);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.w_alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.x_alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.out_alignment);
    wish(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.out_alignment);
    cublasLtMatmulHeuristicResult_t best{};
    int results = 0;
    const cublasStatus_t asked = cublasLtMatmulAlgoGetHeuristic(handle_, fresh->product, fresh->w, fresh->x, fresh->out,
                                                                fresh->out, wishes, 1, &best, &results);
    cublasLtMatmulPreferenceDestroy(wishes);
    blas(asked, "cublasLtMatmulAlgoGetHeuristic");
    require(results == 1, Exit::kUnavailable, "cuBLASLt has no algorithm for {} rows by [{}, {}] {}", key.rows, key.n,
            key.k, name_of(key.type));
    fresh->algorithm = best.algo;
    known = std::move(fresh);
    return *known;
}

void Multiply::operator()(CudaStream& stream, const char* name, size_t bytes, const Tensor& out, const Tensor& x,
                          const Tensor& w) {
    const Key key = {.rows = x.rows(),
                     .n = w.dim(0),
                     .k = w.dim(1),
                     .x_stride = x.stride(),
                     .out_stride = out.stride(),
                     .type = w.dtype(),
                     .w_alignment = alignment_of(w),
                     .x_alignment = alignment_of(x),
                     .out_alignment = alignment_of(out)};
    const Plan& p = plan(key);
    const float one = 1, zero = 0;
    stream.run(name, bytes, [&](cudaStream_t s) {
        blas(cublasLtMatmul(handle_, p.product, &one, w.data(), p.w, x.data(), p.x, &zero, out.data(), p.out,
                            out.data(), p.out, &p.algorithm, workspace_.data(), workspace_.bytes(), s),
             name);
    });
}

}  // namespace trireme::gpu
