#pragma once
/// Every operation in f64, each as one plain loop. Kernels are compared with these, never with each other.

#include <cstdint>
#include <vector>

#include "runtime/dtype.h"

namespace trireme::test::reference {

/// Rows x columns of f64, row-major.
struct Rows {
    Rows(int64_t r, int64_t c) : rows(r), cols(c), at(static_cast<size_t>(r * c)) {}
    Rows(int64_t r, int64_t c, std::vector<double> values) : rows(r), cols(c), at(std::move(values)) {}
    double& operator()(int64_t r, int64_t c) { return at[static_cast<size_t>(r * cols + c)]; }
    double operator()(int64_t r, int64_t c) const { return at[static_cast<size_t>(r * cols + c)]; }

    int64_t rows, cols;
    std::vector<double> at;
};

/// x as `type` stores it.
double rounded(double x, DType type);
/// Rows of KV as kQ8_0 stores them (kernels/kv.h).
Rows quantised(const Rows& x);

Rows embed(const Rows& table, const std::vector<int32_t>& ids);
Rows rmsnorm(const Rows& x, const Rows& weight, double eps);
/// x [rows, k], w [n, k].
Rows matmul(const Rows& x, const Rows& w);
/// cos_sin [rows, head_dim]: cosines, then sines.
Rows rope(const Rows& x, const Rows& cos_sin, int64_t head_dim);
/// One row q [1, heads * head_dim] over keys, values [positions, kv_heads * head_dim].
Rows attention(const Rows& q, const Rows& keys, const Rows& values, const std::vector<int32_t>& kv_of_head);
/// gate_up [rows, 2n].
Rows swiglu(const Rows& gate_up);
Rows add(const Rows& x, const Rows& y);
Rows gather_rows(const Rows& x, const std::vector<int32_t>& rows);

}  // namespace trireme::test::reference
