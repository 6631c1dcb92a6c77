#pragma once
/// Rotation of pairs (RoPE) on a GPU: the same bits for a new key and for one that attention rotates as it reads it.

#include "kernels/cuda/eight.h"
#include "kernels/cuda/kv.h"

namespace trireme::gpu {

/// The elements of a pair (i, i + head_dim/2), rotated.
TRIREME_GPU float rotated_low(float low, float high, float cosine, float sine) {
    return low * cosine - high * sine;
}
TRIREME_GPU float rotated_high(float low, float high, float cosine, float sine) {
    return high * cosine + low * sine;
}

/// Rotates x: elements [first, first + 8) of this key, widened. The other halves of the pairs are read again: the
/// threads of the slot have just read them. angle: cosines of the pairs, then sines.
template <class T, class Gpu>
TRIREME_GPU void rotate_eight(Gpu& gpu, const char* key, const float* angle, int first, int dim, DType type,
                              float (&x)[8]) {
    const int half = dim / 2;
    float other[8], cosine[8], sine[8];
    if (half % 8 == 0) {
        const int pair = first % half;
        Vec8<T> partner;
        Vec8<float> c, s;
        partner.load(gpu, key, dim, first < half ? first + half : pair, type);
        c.load(gpu, reinterpret_cast<const char*>(angle), dim, pair, DType::kF32);
        s.load(gpu, reinterpret_cast<const char*>(angle), dim, half + pair, DType::kF32);
        partner.widen_to(other, type);
        c.widen_to(cosine, DType::kF32);
        s.widen_to(sine, DType::kF32);
    } else {  // the eight elements span both halves
        for (int i = 0; i < 8; ++i) {
            const int pair = (first + i) % half;
            other[i] = element_by<T>(type, key, dim, first + i < half ? pair + half : pair);
            cosine[i] = angle[pair];
            sine[i] = angle[half + pair];
        }
    }
    for (int i = 0; i < 8; ++i) {
        x[i] = first + i < half ? rotated_low(x[i], other[i], cosine[i], sine[i])
                                : rotated_high(other[i], x[i], cosine[i], sine[i]);
    }
}

}  // namespace trireme::gpu
