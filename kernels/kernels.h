#pragma once
/// Kernels: all operations on a device: those of a forward, of sampling, of retrieval and of eviction. An object is
/// bound to one stream; calls enqueue and return.
///
/// Activations are f32 rows, strided where a shape says [rows, n], or rounded as products read them
/// (ForwardKernels::input_of); weights are f32, f16 or bf16, row-major [out, in].
/// Sums are f32. With bf16 weights the matmul's input is rounded to bf16; with f16 weights it remains f32 on the CPU.
/// Decode phase (at most kMaxRows rows): a row has the same bits alone and among other rows, for any thread count.
/// Prefill phase: batches of a fixed number of rows, same bits for any thread count. On the CPU a prefill row also has
/// the same bits alone. On a GPU a library multiplies large batches, and may add in another order.

#include <cstdint>
#include <memory>
#include <string_view>

#include "kernels/eviction_kernels.h"
#include "kernels/forward_kernels.h"
#include "kernels/kernel_limits.h"
#include "kernels/retrieval_kernels.h"
#include "kernels/sampling_kernels.h"
#include "runtime/device.h"
#include "runtime/registry.h"
#include "runtime/stream.h"

namespace trireme {

/// Errors: Exit::kInternal, unless an operation names another. Types and shapes are checked in the call. Contents (ids,
/// slots, tiles) are checked when the operation runs: the stream reports such an error when it is synchronized.
class Kernels : public ForwardKernels, public SamplingKernels, public RetrievalKernels, public EvictionKernels {
  protected:
    Kernels(Phase phase, const KernelLimits& limits)
        : ForwardKernels(phase, limits),
          SamplingKernels(limits),
          EvictionKernels(phase, limits),
          phase_(phase),
          limits_(limits) {}
    Phase phase() const { return phase_; }
    const KernelLimits& limits() const { return limits_; }

  private:
    Phase phase_;
    KernelLimits limits_;
};

/// Factories of Kernels for registered devices (runtime/device.h), by backend name.
using KernelsMaker = std::unique_ptr<Kernels> (*)(Device& device, Stream& stream, Phase phase,
                                                  const KernelLimits& limits);
Registry<KernelsMaker>& kernels_makers();

/// Bytes of device memory that Kernels allocate: "cpu" with `threads` threads, or a GPU. Needs no device.
size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads);

/// Whether the backend, on this machine, multiplies weights in blocks by such activations.
bool multiplies(std::string_view backend, ActivationType as);
/// The fastest of them. `interleaved`: some weights can be (can_interleave()).
ActivationType fastest_activations(std::string_view backend, bool interleaved = true);

/// Whether bf16 products are faster than f16 products, as on CPUs with dot products of bf16 pairs.
bool multiplies_bf16_faster(std::string_view backend);

/// Makes the Kernels of the device's backend. `device` must outlive the object.
std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits);

}  // namespace trireme
