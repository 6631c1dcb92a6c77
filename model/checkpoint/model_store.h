#pragma once
/// Writer of a model as one store (store_model.h describes the content).

#include <filesystem>
#include <functional>

#include "model/checkpoint/conversion.h"
#include "runtime/atomic_file.h"

namespace trireme {

/// Writes the file `to`. Matrices that ranks divide by columns are stored as `ranks` ranks read them (make_shard); any
/// number of ranks can read the file. Tensors have the types of Conversion::Tensor::written; sets of blocks are u8.
/// `proceed` is called repeatedly and may throw to end the work. The file appears when all of it is on the disk; an
/// error leaves an old file unchanged (PartFile). Errors: Exit::kConfig for more ranks than query heads, or a value
/// that the requested type cannot hold; as StoreWriter; as for reading.
void write_model_store(const Conversion& model, const std::filesystem::path& to, IfThere old, int ranks,
                       const std::function<void()>& proceed);

}  // namespace trireme
