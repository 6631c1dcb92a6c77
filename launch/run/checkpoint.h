#pragma once
/// Checkpoint: the opened files of a model. Their metadata is checked; their weights are not read yet.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/weight_type.h"
#include "model/checkpoint/weight_source.h"
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

/// Loads the tokenizer of `model` (a path) if possible. If there is none, or its format is not supported, returns null,
/// and logs `without` (what happens then) and the reason at level debug. Errors: Exit::kIo and kOs.
std::unique_ptr<Tokenizer> optional_tokenizer(const std::string& model, std::string_view without);

/// Opens the files that --model and --tokenizer name. Whether a tokenizer is required depends on the command and its
/// flags. `backend`: of the device that will hold the weights. Errors: as open_model and load_tokenizer.
Checkpoint open_checkpoint(Command command, const Options& options, std::string_view backend);

}  // namespace trireme
