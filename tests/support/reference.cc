#include "tests/support/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::test::reference {

double rounded(double x, DType type) {
    const float f = static_cast<float>(x);
    switch (type) {
        case DType::kF16:
            return static_cast<double>(static_cast<float>(f16(f)));
        case DType::kBF16:
            return static_cast<double>(static_cast<float>(bf16(f)));
        default:
            return static_cast<double>(f);
    }
}

Rows quantised(const Rows& x) {
    constexpr int64_t kBlock = 32;
    constexpr float kMost = 127 * 65504.0F;
    Rows out = x;
    for (int64_t first = 0; first < static_cast<int64_t>(x.at.size()); first += kBlock) {
        const auto element = [&](int64_t i) { return static_cast<float>(x.at[static_cast<size_t>(first + i)]); };
        float most = 0;
        bool is_nan = false;
        for (int64_t i = 0; i < kBlock; ++i) {
            is_nan = is_nan || std::isnan(element(i));
            if (!std::isnan(element(i))) most = std::fmax(most, std::fabs(std::clamp(element(i), -kMost, kMost)));
        }
        const float scale = most / 127, stored = static_cast<float>(f16(scale));
        for (int64_t i = 0; i < kBlock; ++i) {
            const float code =
                stored == 0 || is_nan ? 0 : std::nearbyintf(std::clamp(element(i), -kMost, kMost) * (1 / scale));
            out.at[static_cast<size_t>(first + i)] =
                is_nan ? std::nan("") : static_cast<double>(code) * static_cast<double>(stored);
        }
    }
    return out;
}

Rows embed(const Rows& table, const std::vector<int32_t>& ids) {
    return gather_rows(table, ids);
}

Rows rmsnorm(const Rows& x, const Rows& weight, double eps) {
    Rows out(x.rows, x.cols);
    for (int64_t r = 0; r < x.rows; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < x.cols; ++i) squares += x(r, i) * x(r, i);
        const double scale = 1 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
        for (int64_t i = 0; i < x.cols; ++i) out(r, i) = x(r, i) * scale * weight(0, i);
    }
    return out;
}

Rows matmul(const Rows& x, const Rows& w) {
    Rows out(x.rows, w.rows);
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t n = 0; n < w.rows; ++n)
            for (int64_t i = 0; i < x.cols; ++i) out(r, n) += x(r, i) * w(n, i);
    return out;
}

Rows rope(const Rows& x, const Rows& cos_sin, int64_t head_dim) {
    Rows out = x;
    const int64_t half = head_dim / 2;
    for (int64_t r = 0; r < x.rows; ++r) {
        for (int64_t c = 0; c < x.cols; ++c) {
            const int64_t i = c % head_dim % half;
            const double cos = cos_sin(r, i), sin = cos_sin(r, half + i);
            const bool first = c % head_dim < half;
            out(r, c) = first ? x(r, c) * cos - x(r, c + half) * sin : x(r, c) * cos + x(r, c - half) * sin;
        }
    }
    return out;
}

Rows attention(const Rows& q, const Rows& keys, const Rows& values, const std::vector<int32_t>& kv_of_head) {
    const int64_t heads = static_cast<int64_t>(kv_of_head.size()), dim = q.cols / heads;
    Rows out(1, q.cols);
    for (int64_t h = 0; h < heads; ++h) {
        const int64_t kv = kv_of_head[static_cast<size_t>(h)] * dim;
        std::vector<double> score(static_cast<size_t>(keys.rows));
        double max = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t p = 0; p < keys.rows; ++p) {
            double dot = 0;
            for (int64_t i = 0; i < dim; ++i) dot += q(0, h * dim + i) * keys(p, kv + i);
            score[static_cast<size_t>(p)] = dot / std::sqrt(static_cast<double>(dim));
            max = std::fmax(max, score[static_cast<size_t>(p)]);
        }
        for (double& s : score) sum += s = std::exp(s - max);
        for (int64_t p = 0; p < keys.rows; ++p)
            for (int64_t i = 0; i < dim; ++i)
                out(0, h * dim + i) += score[static_cast<size_t>(p)] / sum * values(p, kv + i);
    }
    return out;
}

Rows swiglu(const Rows& gate_up) {
    Rows out(gate_up.rows, gate_up.cols / 2);
    for (int64_t r = 0; r < out.rows; ++r) {
        for (int64_t i = 0; i < out.cols; ++i) {
            const double gate = gate_up(r, i);
            out(r, i) = gate / (1 + std::exp(-gate)) * gate_up(r, out.cols + i);
        }
    }
    return out;
}

Rows add(const Rows& x, const Rows& y) {
    Rows out = x;
    for (size_t i = 0; i < out.at.size(); ++i) out.at[i] += y.at[i];
    return out;
}

Rows gather_rows(const Rows& x, const std::vector<int32_t>& rows) {
    Rows out(static_cast<int64_t>(rows.size()), x.cols);
    for (int64_t r = 0; r < out.rows; ++r)
        for (int64_t i = 0; i < x.cols; ++i) out(r, i) = x(rows[static_cast<size_t>(r)], i);
    return out;
}

}  // namespace trireme::test::reference
