#pragma once
/// GpuProducts: the GPU backend's matrix products and embeddings. It is a base of GpuKernels; gpu_kernels.h describes a
/// Launcher.

#include <algorithm>
#include <utility>

#include "kernels/bytes.h"
#include "kernels/cuda/gpu_slots.h"
#include "kernels/cuda/matmul_blocks.h"
#include "kernels/cuda/matmul_decode.h"
#include "kernels/cuda/rowwise.h"
#include "kernels/cuda/scratch.h"
#include "runtime/buffer.h"

namespace trireme::gpu {

static_assert(padded_k(1) == MatmulDecode<f16, 1>::kPiece, "rounded rows are whole pieces");
static_assert(8 * MatmulDecode<f16, 8>::kRows >= kMaxRows, "eight tiles of rows hold a decode forward");

/// visit(constant) with a type of blocks, known at compile time.
template <class Visit>
void with_blocks(StoredType type, const Visit& visit) {
    const auto with = [&]<StoredType kType>() { visit(std::integral_constant<StoredType, kType>()); };
    switch (type) {
        using enum StoredType;
        case kQ4_0:
            return with.template operator()<kQ4_0>();
        case kQ4_1:
            return with.template operator()<kQ4_1>();
        case kQ5_0:
            return with.template operator()<kQ5_0>();
        case kQ5_1:
            return with.template operator()<kQ5_1>();
        case kQ8_0:
            return with.template operator()<kQ8_0>();
        case kIQ4_NL:
            return with.template operator()<kIQ4_NL>();
        case kMXFP4:
            return with.template operator()<kMXFP4>();
        case kQ2_K:
            return with.template operator()<kQ2_K>();
        case kQ3_K:
            return with.template operator()<kQ3_K>();
        case kQ4_K:
            return with.template operator()<kQ4_K>();
        case kQ5_K:
            return with.template operator()<kQ5_K>();
        case kQ6_K:
            return with.template operator()<kQ6_K>();
        case kIQ4_XS:
            return with.template operator()<kIQ4_XS>();
        case kInt4:
            return with.template operator()<kInt4>();
        case kFP8:
            return with.template operator()<kFP8>();
        case kF32:
        case kF16:
        case kBF16:
            return;  // callers have checked that the type has blocks
    }
}

/// Products and embeddings over a Launcher. `device` allocates scratch.
template <class Launcher>
class GpuProducts : public GpuSlotKernels<Launcher> {
    using Base = GpuSlotKernels<Launcher>;

  protected:
    using Base::launcher_;

    GpuProducts(Device& device, Launcher launcher, Phase phase, const KernelLimits& limits)
        : Base(std::move(launcher), phase, limits), scratch_(device, scratch_bytes(phase, limits)) {}

    Buffer<Space::kDevice> scratch_;

  private:
    bool rounds() const override { return this->phase() == Phase::kDecode; }
    // Decode products of 16 bits read whole rows of w. A prefill's attention has no rounded output.
    DType input_type(const WeightMatrix& w) const override {
        if (!rounds()) return DType::kF32;
        if (!w.blocks()) return w.plain().dtype();
        const auto whole = [&](const WeightRows& part) {
            return is_quantised(part.type) ? w.stored_cols(part.type) == w.cols() : part.type == StoredType::kF16;
        };
        const bool all = w.as() == ActivationType::kF16 && w.skip() == 0 && std::ranges::all_of(w.parts(), whole);
        return all ? DType::kF16 : DType::kF32;
    }
    void do_embed(const Tensor& out, const Tensor& table, const Tensor& ids) override {
        with_type(table.dtype(), [&](auto t) {
            using T = decltype(t);
            launcher_.template launch<Embed<T>>("embed", bytes::embed(out, table), {out.rows()},
                                                {rows_of<float>(out), rows_of<const T>(table),
                                                 static_cast<const int32_t*>(ids.data()), table.dim(0), table.dim(1)});
        });
    }
    void do_embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) override {
        const WeightRows& part = table.parts()[0];
        decode_rows<float>("embed", out.bytes() + static_cast<size_t>(out.rows() * part.stride), out, part, 0,
                           static_cast<const int32_t*>(ids.data()));
    }

    void do_matmul(const Tensor& out, const Tensor& x, const Tensor& w) override {
        if (w.dim(1) == 0) return clear(out);  // a rank without columns of the MLP contributes zeros
        if (this->phase() == Phase::kDecode && w.dtype() == DType::kF32) {
            launcher_.template launch<MatmulDecodeF32>(
                "matmul", bytes::matmul(out, x, w), {div_up(w.dim(0), MatmulDecodeF32::kColumns)},
                {rows_of<float>(out), rows_of<const float>(x), static_cast<const float*>(w.data()), x.rows(), w.dim(0),
                 w.dim(1)});
        } else if (w.dtype() == DType::kF32) {
            launcher_.multiply("matmul_prefill", bytes::matmul(out, x, w), out, x, w);
        } else if (w.dtype() == DType::kF16) {
            matmul_16<f16>(out, x, w);
        } else {
            matmul_16<bf16>(out, x, w);
        }
    }
    template <class T>
    void matmul_16(const Tensor& out, const Tensor& x, const Tensor& w) {
        const Tensor rounded = x.dtype() == DType::kF32 ? round<T>(x, w.dtype(), 0, padded_k(w.dim(1))) : x;
        if (this->phase() == Phase::kPrefill) {
            return launcher_.multiply("matmul_prefill", bytes::matmul(out, x, w), out, rounded, w);
        }
        decode(bytes::matmul(out, x, w), out, rounded, w.dim(0), w.dim(1), plain_weights<T>(w));
    }
    template <class T>
    static PlainWeights<T> plain_weights(const Tensor& w) {
        const bool aligned = w.dim(1) % 8 == 0 && reinterpret_cast<uintptr_t>(w.data()) % 16 == 0;
        return {static_cast<const T*>(w.data()), aligned};
    }
    // One kernel if x is rounded and w is of one type; else a product and what remains.
    void do_matmul_swiglu(const Tensor& out, const Tensor& gate_up, const Tensor& x, const WeightMatrix& w) override {
        const size_t bytes = w.bytes() + x.bytes() + out.bytes();
        const bool one = x.dtype() != DType::kF32 && x.cols() > 0 && (!w.blocks() || w.parts().size() == 1);
        if (one && x.dtype() == DType::kBF16) {
            decode(bytes, out, x, w.rows(), w.cols(), plain_weights<bf16>(w.plain()), /*gated=*/true);
        } else if (one && (!w.blocks() || !is_quantised(w.parts()[0].type))) {
            const Tensor plain = w.blocks() ? w.plain(w.parts()[0]) : w.plain();
            decode(bytes, out, x, w.rows(), w.cols(), plain_weights<f16>(plain), /*gated=*/true);
        } else if (one) {
            const WeightRows& part = w.parts()[0];
            with_blocks(part.type, [&](auto type) {
                decode(bytes, out, x, w.rows(), w.cols(), BlockWeights<type(), f16>{blocks_of(part)}, /*gated=*/true);
            });
        } else {
            this->matmul(gate_up, x, w);
            this->swiglu(out, gate_up);
        }
    }

    void do_matmul_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w) override {
        check(w.as() == ActivationType::kF32 || w.as() == ActivationType::kF16,
              "matmul: blocks as {}, which GPUs do not multiply", name_of(w.as()));
        if (w.cols() == 0) return clear(out);
        int64_t column = 0, rounded_k = 0;  // elements of the rows that were rounded last
        Tensor rounded;
        for (const WeightRows& part : w.parts()) {
            const Tensor to = out.slice_cols(column, part.rows);
            column += part.rows;
            if (!is_quantised(part.type)) {
                do_matmul(to, x, w.plain(part));
                rounded_k = 0;
            } else if (this->phase() == Phase::kPrefill) {
                prefill_blocks(to, x, w, part);
            } else if (w.as() == ActivationType::kF32) {
                with_blocks(part.type, [&](auto type) {
                    using Body = MatmulBlocksF32<type()>;
                    launcher_.template launch<Body>("matmul", bytes::matmul(to, x, part),
                                                    {div_up(part.rows, Body::kColumns)},
                                                    {rows_of<float>(to), rows_of<const float>(x), blocks_of(part),
                                                     x.rows(), part.rows, w.cols(), w.skip()});
                });
            } else {
                const int64_t stored = w.stored_cols(part.type);
                if (x.dtype() == DType::kF16) {
                    rounded = x;
                } else if (stored != rounded_k) {
                    rounded = round<f16>(x, DType::kF16, w.skip(), stored);
                }
                rounded_k = stored;
                with_blocks(part.type, [&](auto type) {
                    decode(bytes::matmul(to, x, part), to, rounded, part.rows, stored,
                           BlockWeights<type(), f16>{blocks_of(part)});
                });
            }
        }
    }
    /// Decodes panels of rows into scratch, after the rounded x, and multiplies them by the library.
    void prefill_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w, const WeightRows& part) {
        const Tensor in = w.as() == ActivationType::kF32 ? x : round<f16>(x, DType::kF16, 0, padded_k(w.cols()));
        char* panel = static_cast<char*>(scratch_.data()) + rounded_bytes(this->limits());
        const DType type = w.as() == ActivationType::kF32 ? DType::kF32 : DType::kF16;
        const int64_t rows = panel_rows(this->limits(), w.cols(), type);
        for (int64_t first = 0; first < part.rows; first += rows) {
            const int64_t n = std::min(rows, part.rows - first);
            const Tensor plain(panel, type, Shape{n, w.cols()});
            const WeightRows some = {part.type, static_cast<char*>(part.data) + first * part.stride, n, part.stride};
            const size_t bytes = static_cast<size_t>(n * part.stride) + plain.bytes();
            if (w.as() == ActivationType::kF32) {
                decode_rows<float>("decode_blocks", bytes, plain, some, w.skip(), nullptr);
            } else {
                decode_rows<f16>("decode_blocks", bytes, plain, some, w.skip(), nullptr);
            }
            const Tensor to = out.slice_cols(first, n);
            launcher_.multiply("matmul_prefill", bytes::matmul(to, x, plain), to, in, plain);
        }
    }

    /// x rounded to T, after `skip` zeros, in rows of `padded` elements.
    template <class T>
    Tensor round(const Tensor& x, DType type, int64_t skip, int64_t padded) {
        const Tensor rounded(scratch_.data(), type, Shape{x.rows(), skip + x.cols()}, padded);
        launcher_.template launch<RoundRows<T>>("round_rows", bytes::add(x),
                                                {div_up(padded, RoundRows<T>::kThreads), x.rows()},
                                                {rows_of<const float>(x), rows_of<T>(rounded), x.cols(), padded, skip});
        return rounded;
    }
    /// The decode product of rounded rows with w [n, k].
    template <class Weights>
    void decode(size_t bytes, const Tensor& out, const Tensor& rounded, int64_t n, int64_t k, const Weights& w,
                bool gated = false) {
        constexpr int64_t kRows = MatmulDecode<f16, 1>::kRows;
        if (out.rows() <= kRows) return decode_tiles<1>(bytes, out, rounded, n, k, w, gated);
        if (out.rows() <= 2 * kRows) return decode_tiles<2>(bytes, out, rounded, n, k, w, gated);
        if (out.rows() <= 4 * kRows) return decode_tiles<4>(bytes, out, rounded, n, k, w, gated);
        decode_tiles<8>(bytes, out, rounded, n, k, w, gated);
    }
    template <int kTiles, class Weights>
    void decode_tiles(size_t bytes, const Tensor& out, const Tensor& rounded, int64_t n, int64_t k, const Weights& w,
                      bool gated) {
        using T = typename Weights::Element;
        using Body = MatmulDecode<T, kTiles, Weights>;
        const int64_t columns = gated ? Body::kColumns / 2 : Body::kColumns;
        launcher_.template launch<Body>(gated ? "matmul_swiglu" : "matmul", bytes, {div_up(out.cols(), columns)},
                                        {rounded_rows_of(out), rows_of<const T>(rounded), w, out.rows(), n, k, gated});
    }
    template <class T>
    void decode_rows(const char* name, size_t bytes, const Tensor& out, const WeightRows& w, int64_t skip,
                     const int32_t* ids) {
        with_blocks(w.type, [&](auto type) {
            using Body = DecodeRows<type(), T>;
            launcher_.template launch<Body>(name, bytes, {div_up(skip + out.cols(), Body::kElements), out.rows()},
                                            {rows_of<T>(out), blocks_of(w), ids, w.rows, out.cols(), skip});
        });
    }
    void clear(const Tensor& out) {
        launcher_.template launch<Clear>("clear", out.bytes(), {div_up(out.cols(), Clear::kThreads), out.rows()},
                                         {rows_of<float>(out), out.cols()});
    }
    static Rows<const uint8_t> blocks_of(const WeightRows& part) {
        return {static_cast<const uint8_t*>(part.data), part.stride};
    }
};

}  // namespace trireme::gpu
