#pragma once
/// Residual: the residual stream of a forward's rows. What a part of a layer adds to it waits for the next norm, so
/// that a backend can add and norm in one kernel.

#include "kernels/kernels.h"

namespace trireme {

class Residual {
  public:
    /// x: f32 [rows, dim].
    explicit Residual(const Tensor& x) : x_(x) {}
    Residual(const Residual&) = delete;
    Residual& operator=(const Residual&) = delete;

    /// x += y, f32 [rows, dim], by the next norm() or settle(); y must not change before.
    void add(const Tensor& y) { y_ = y; }
    /// out = rmsnorm(x). out's rows may lie in those of the last y.
    void norm(Kernels& op, const Tensor& out, const Tensor& weight, float eps) {
        if (y_) {
            op.add_rmsnorm(out, x_, y_, weight, eps);
        } else {
            op.rmsnorm(out, x_, weight, eps);
        }
        y_ = {};
    }
    /// Returns x with everything added.
    const Tensor& settle(Kernels& op) {
        if (y_) op.add(x_, y_);
        y_ = {};
        return x_;
    }
    int64_t rows() const { return x_.rows(); }

  private:
    Tensor x_, y_;
};

}  // namespace trireme
