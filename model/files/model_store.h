#pragma once
/// Writing a model as one store (store_model.h says what it holds).

#include <filesystem>
#include <functional>

#include "model/files/conversion.h"
#include "runtime/atomic_file.h"

namespace trireme {

/// Writes the file `to`, whose column-wise divided matrices lie as `ranks` ranks read them (make_shard). Any number of
/// ranks reads it. Tensors keep the type that they have (quantised ones: f16); with a wished type all matrices have
/// that. `proceed` is called now and then and may throw, to end the work. The file appears when all of it is on the
/// disk; an error leaves what was there (PartFile). Errors: Exit::kConfig for more ranks than query heads, or a value
/// that the wished type does not hold; as StoreWriter; those of reading.
void write_model_store(const Conversion& model, const std::filesystem::path& to, IfThere old, int ranks,
                       const std::function<void()>& proceed);

}  // namespace trireme
