#include <algorithm>
#include <filesystem>

#include "launch/commands/commands.h"
#include "launch/run/outcome.h"
#include "launch/run/signals.h"
#include "model/checkpoint/model_folder.h"
#include "model/checkpoint/model_gguf.h"
#include "model/checkpoint/model_store.h"
#include "model/files/limits.h"
#include "model/files/store/stored_files.h"
#include "model/tokenizer/chat_template.h"
#include "model/tokenizer/folder_tokenizer.h"
#include "model/tokenizer/gguf_export.h"
#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// The tokenizer's entries for a GGUF file; none if the model has none, or if it came from a GGUF file, whose own
/// metadata is copied.
GgufEntries tokenizer_of(const Conversion& model, const std::string& path) {
    const TextOf text_of = [&](const char* name, uint64_t most) { return model.file(name, most); };
    if (model.from_gguf()) return {};
    if (!text_of("tokenizer.json", limits::kTokenizerBytes) && !text_of("tokenizer.model", limits::kTokenizerBytes)) {
        log::warn("{}: has no tokenizer, so the GGUF file gets none; name one to use it", path);
        return {};
    }
    return tokenizer_entries(export_tokenizer(*load_tokenizer(path), text_of, model.config().vocab, path), text_of);
}

/// The tokenizer of a GGUF file as files of a folder; none if the model has such files itself, or no tokenizer.
std::vector<ModelFile> tokenizer_files(const Conversion& model, const std::string& path) {
    if (!model.from_gguf()) return {};
    const std::vector<ModelFile> own = model.files();
    const auto metadata = std::ranges::find(own, kStoredGguf, &ModelFile::name);
    if (metadata == own.end()) return {};
    const auto source = memory_source(path, std::as_bytes(std::span(metadata->bytes)));
    const GgufFile gguf = read_gguf(*source);
    if (!gguf.metadata.string("tokenizer.ggml.model")) return {};
    std::vector<ModelFile> files;
    try {
        for (auto& [name, bytes] : folder_tokenizer(gguf_tokenizer(gguf.metadata), read_chat_template(path))) {
            files.push_back({name, std::move(bytes)});
        }
    } catch (const Error& e) {
        if (e.code() != Exit::kData) throw;
        log::warn("{}", e.what());  // write_model_folder() says that the folder has no tokenizer
    }
    return files;
}

}  // namespace

void run_convert(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    if (!o.tokens.empty()) return run_convert_tokens(start, rank_group);
    remember_signals();  // on every rank, since rank 0 may have to remove a folder
    rank_group.first_only_waiting([&](const StillWaiting& still_waiting) {
        const auto proceed = [&] {
            still_waiting();
            if (const int number = remembered_signal(); number != 0) {
                log::info("stopped by signal {}: {} is not written", number, o.output_path);
                throw Stopped{128 + number};
            }
        };
        const std::string form = std::filesystem::path(o.output_path).extension();
        const bool store = form == ".h5", gguf = form == ".gguf";
        require(store || o.ranks == 0, Exit::kUsage,
                "--ranks {}: says how a .h5 file is laid out, and {} becomes {}; want -o NAME.h5", o.ranks,
                o.output_path, gguf ? "a GGUF file" : "a folder");
        if (o.quantise != nullptr) {
            require(store || gguf, Exit::kUsage,
                    "--quantise {}: {} becomes a folder, which has no blocks; want -o NAME.gguf or NAME.h5",
                    o.quantise->name, o.output_path);
            require(!o.dtype, Exit::kUsage,
                    "--quantise and --dtype both say the type of the written matrices; want one of them");
        }
        const Conversion model(o.model, {.layer_map = o.layer_map,
                                         .average = o.average,
                                         .dtype = o.dtype,
                                         .quantise = o.quantise,
                                         .random = o.random_weights});
        if (gguf) {
            write_model_gguf(model, o.output_path, o.old_outputs(), tokenizer_of(model, o.model), proceed);
        } else if (store) {
            write_model_store(model, o.output_path, o.old_outputs(), static_cast<int>(std::max<int64_t>(1, o.ranks)),
                              proceed);
        } else {
            write_model_folder(model, o.output_path, tokenizer_files(model, o.model), proceed);
        }
    });
}

}  // namespace trireme
