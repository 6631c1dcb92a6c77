#include "launch/run/checkpoint.h"

#include <algorithm>

#include "model/checkpoint/mapped_model.h"
#include "runtime/log.h"

namespace trireme {
namespace {

// Opens the tokenizer that --tokenizer names, else the model's. A run with ids in and ids out works without one. If
// there is one, its end-of-text ids are still used.
std::unique_ptr<Tokenizer> open_tokenizer(Command command, const Options& o) {
    const bool text_out = command == Command::kBatch || command == Command::kChat || command == Command::kPipe ||
                          (command == Command::kGenerate && (o.print != Print::kIds || !o.stop.empty()));
    // Data sets hold ids or texts. The reader of a text fails if there is no tokenizer for it.
    const bool ids_in = o.prompt_from == PromptFrom::kIds || o.prompt_from == PromptFrom::kData;
    const bool needed = !ids_in || text_out || !o.tokenizer.empty();
    if (needed) return load_tokenizer(o.tokenizer_path());
    return optional_tokenizer(o.model, "continues without a tokenizer");
}

std::vector<int32_t> ends_of_text(const LlamaConfig& config, const Tokenizer* tokenizer) {
    std::vector<int32_t> eos = config.eos;
    const std::vector<int32_t> more = tokenizer ? tokenizer->eos_ids() : std::vector<int32_t>();
    eos.insert(eos.end(), more.begin(), more.end());
    std::sort(eos.begin(), eos.end());
    eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
    return eos;
}

}  // namespace

std::unique_ptr<Tokenizer> optional_tokenizer(const std::string& model, std::string_view without) {
    try {
        return load_tokenizer(model);
    } catch (const Error& e) {
        if (e.code() == Exit::kIo || e.code() == Exit::kOs) throw;
        log::debug("{}: {}", without, e.what());
        return nullptr;
    }
}

Checkpoint open_checkpoint(Command command, const Options& o, std::string_view backend) {
    Checkpoint c;
    c.source = with_layer_map(open_model(o.model), o.layer_map, o.wide_window ? 1 : 0);
    c.tokenizer = open_tokenizer(command, o);
    c.eos = ends_of_text(c.config(), c.tokenizer.get());
    c.weight_type = choose_weight_type(*c.source, o.dtype, o.activations, backend);
    if (o.activations && !c.weight_type.format.has_blocks() && o.model_draft.empty()) {
        log::warn("--activations has no effect here: it is for quantised weights, without --dtype");
    }
    c.backend = backend;
    return c;
}

}  // namespace trireme
