#pragma once
/// WantedTensors: a list of tensors to allocate in one piece of device memory. The same list serves to compute their
/// size (bytes_of) and to allocate them (take_all). EvictingMemory and HeavyMemory use it.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "runtime/buffer.h"
#include "runtime/error.h"
#include "runtime/stream.h"

namespace trireme {

struct WantedTensor {
    Tensor* tensor;
    DType type;
    Shape shape;
};
using WantedTensors = std::vector<WantedTensor>;

inline size_t bytes_of(const WantedTensors& all) {
    size_t bytes = 0;
    for (const WantedTensor& w : all) bytes += Arena<Space::kDevice>::bytes_of(w.type, w.shape);
    return bytes;
}
inline void take_all(Arena<Space::kDevice>& device, const WantedTensors& all) {
    for (const WantedTensor& w : all) *w.tensor = device.take(w.type, w.shape);
}

/// Adds to the list a tensor for a copy of each tensor in `of`, which must be in the list. Allocating it sets
/// copies[i].
inline void want_copies(WantedTensors& all, std::vector<Tensor>& copies, const std::vector<const Tensor*>& of) {
    copies.resize(of.size());
    for (size_t i = 0; i < of.size(); ++i) {
        const auto original =
            std::find_if(all.begin(), all.end(), [&](const WantedTensor& w) { return w.tensor == of[i]; });
        check(original != all.end(), "a copy of a tensor that is not required");
        const WantedTensor copy{&copies[i], original->type, original->shape};
        all.push_back(copy);
    }
}

/// Enqueues copies of the originals `of` to `copies`; none if `copies` is empty.
inline void save(Stream& stream, const std::vector<Tensor>& copies, const std::vector<const Tensor*>& of,
                 const char* what) {
    for (size_t i = 0; i < copies.size(); ++i) stream.copy(copies[i], *of[i], what);
}
/// Enqueues copies of `copies` back to the originals.
inline void restore(Stream& stream, const std::vector<Tensor>& copies, const std::vector<const Tensor*>& of,
                    const char* what) {
    for (size_t i = 0; i < copies.size(); ++i) stream.copy(*of[i], copies[i], what);
}

}  // namespace trireme
