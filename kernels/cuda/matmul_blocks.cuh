#pragma once
/// The kernels of weights in blocks of one type: TRIREME_KERNELS_OF(type) in one .cu file.

#include "kernels/cuda/matmul_blocks.h"
#include "runtime/cuda/launch.cuh"

#define TRIREME_KERNELS_OF(type)                                                             \
    TRIREME_KERNEL(MatmulDecode<f16, 1, BlockWeights<StoredType::type, f16>>);               \
    TRIREME_KERNEL(MatmulDecode<f16, 2, BlockWeights<StoredType::type, f16>>);               \
    TRIREME_KERNEL(MatmulDecode<f16, 4, BlockWeights<StoredType::type, f16>>);               \
    TRIREME_KERNEL(MatmulDecode<f16, 8, BlockWeights<StoredType::type, f16>>);               \
    TRIREME_KERNEL(MatmulBlocksF32<StoredType::type>);                                       \
    TRIREME_KERNEL(DecodeRows<StoredType::type, f16>);                                       \
    TRIREME_KERNEL(DecodeRows<StoredType::type, float>)
