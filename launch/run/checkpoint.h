#pragma once
/// The files of a model, opened: what they say is checked, their weights are not read yet.

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
    std::unique_ptr<Tokenizer> tokenizer;  // null if the model has none and the run needs none: ids in, ids out
    std::vector<int32_t> eos;              // what ends a text, by the model's files and by the tokenizer's
    WeightType weight_type;
    std::string backend;  // that it is to run on

    const LlamaConfig& config() const { return source->config(); }
};

/// The tokenizer of a model where it can be done without: null, and a line of the debug log, if there is none, or none
/// that is understood. Errors: Exit::kIo and kOs: what it says cannot be known then.
std::unique_ptr<Tokenizer> optional_tokenizer(const std::string& model, std::string_view without);

/// Opens what --model and --tokenizer name. Errors: as open_model and load_tokenizer.
Checkpoint open_checkpoint(Command command, const Options& options, std::string_view backend);

}  // namespace trireme
