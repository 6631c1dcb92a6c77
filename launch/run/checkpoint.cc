#include "launch/run/checkpoint.h"

#include <algorithm>

#include "model/files/mapped_model.h"
#include "runtime/log.h"

namespace trireme {
namespace {

// The model's tokenizer, unless --tokenizer names one. A run with ids in and ids out does not need it, and it may be
// missing then; if there is one, it still says which tokens end a text.
std::unique_ptr<Tokenizer> open_tokenizer(Command command, const Options& o) {
    const bool text_out =
        command == Command::kBatch || (command == Command::kGenerate && (o.print == Print::kText || !o.stop.empty()));
    // Of data, ids may come, or texts: whoever reads a text says if there is no tokenizer for it.
    const bool ids_in = o.prompt_from == PromptFrom::kIds || o.prompt_from == PromptFrom::kData;
    const bool needed = !ids_in || text_out || !o.tokenizer.empty();
    if (needed) return load_tokenizer(o.tokenizer.empty() ? o.model : o.tokenizer);
    return optional_tokenizer(o.model, "goes on without a tokenizer");
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
    c.weight_type = choose_weight_type(*c.source, o.dtype, backend);
    c.backend = backend;
    return c;
}

}  // namespace trireme
