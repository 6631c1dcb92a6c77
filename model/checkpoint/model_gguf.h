#pragma once
/// Writer of a model as one GGUF file, which llama.cpp reads too.

#include <filesystem>
#include <functional>

#include "model/checkpoint/conversion.h"
#include "model/files/gguf_writer.h"
#include "runtime/atomic_file.h"

namespace trireme {

/// Writes the file `to`. Matrices have the types of Conversion::Tensor::written (INT4 and FP8, which GGUF does not
/// have: F16), vectors are F32. The metadata is that of the GGUF file from which the model came, if it did, else that
/// of the config, and `tokenizer`. `proceed`, and when the file appears: as write_model_store. Errors: Exit::kUsage for
/// what GGUF cannot state (gguf_keys), as for reading, as GgufWriter.
void write_model_gguf(const Conversion& model, const std::filesystem::path& to, IfThere old,
                      const GgufEntries& tokenizer, const std::function<void()>& proceed);

}  // namespace trireme
