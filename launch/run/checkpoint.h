#pragma once
/// The opened files of a model: their metadata is checked, their weights are not read yet.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/weight_type.h"
#include "model/files/weight_source.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

struct Checkpoint {
    std::unique_ptr<WeightSource> source;
    std::unique_ptr<Tokenizer> tokenizer;  // null if the model has none and the run needs none (ids in, ids out)
    std::vector<int32_t> eos;              // end-of-text ids of the model's files and of the tokenizer
    WeightType weight_type;
    std::string backend;  // of the device that the run uses

    const LlamaConfig& config() const { return source->config(); }
};

/// Loads a model's tokenizer if possible. Returns null, and logs `without` and the reason at level debug, if there is
/// none or its format is not supported. Errors: Exit::kIo and kOs, since the tokenizer's content is then unknown.
std::unique_ptr<Tokenizer> optional_tokenizer(const std::string& model, std::string_view without);

/// Opens the files that --model and --tokenizer name. Errors: as open_model and load_tokenizer.
Checkpoint open_checkpoint(Command command, const Options& options, std::string_view backend);

}  // namespace trireme
