#include "launch/run/data_set.h"

#include <utility>

#include "launch/run/data_choice.h"
#include "launch/run/prompt.h"
#include "model/files/byte_source.h"
#include "model/files/shown.h"
#include "model/tokenizer/token_store.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFirstOfGs = 20;             // as TriForce
constexpr size_t kMostHeld = size_t{1} << 32;  // bytes of all texts that a run takes

fs::path folder_of(const Options& o) {
    const fs::path all = o.data.empty() ? "data" : o.data;
    const fs::path own = all / (o.dataset == "gs" || o.dataset == "128k" ? "pg19" : o.dataset);
    require(is_folder(own), Exit::kNoInput,
            "--dataset {}: no folder {}; put its texts there, or say with --data where the data sets are", o.dataset,
            own.string());
    return own;
}

DataSet from_store(const fs::path& path, const DataChoice& choice, const StillWaiting& waiting, int64_t most) {
    const TokenStore store(open_file(path));
    require(store.texts() > 0, Exit::kNoInput, "{}: has no texts", path.string());
    DataSet set;
    set.made = {.path = path.string(), .tokenizer = store.tokenizer(), .add_special = store.add_special()};
    size_t held = 0;
    for (const int64_t t : chosen(store.texts(), choice, path.string(), "texts")) {
        if (waiting) waiting();
        const std::vector<int32_t> ids = store.ids(t, most);
        held += ids.size() * sizeof(int64_t);
        require(held <= kMostHeld, Exit::kData, "{}: more than {} bytes at once; take fewer texts with --limit",
                path.string(), kMostHeld);
        set.texts.push_back({.where = fmt::format("{}: text {} ({})", path.string(), t, shown(store.name(t))),
                             .name = std::string(store.name(t)),
                             .text = "",
                             .ids = std::vector<int64_t>(ids.begin(), ids.end())});
    }
    return set;
}

size_t bytes_of(const DataText& t) {
    return t.text.size() + (t.ids ? t.ids->size() * sizeof(int64_t) : 0);
}

/// Without a shuffle, nothing after the last selected text is read.
DataSet from_texts(const fs::path& path, int64_t first, const DataChoice& choice, const StillWaiting& waiting) {
    std::vector<DataText> all;
    int64_t seen = 0;
    size_t held = 0;
    const bool in_order = !choice.shuffle;
    for_texts(path, waiting, [&](DataText text) {
        if (seen++ >= choice.skip || !in_order) {
            held += bytes_of(text);
            require(held <= kMostHeld, Exit::kData,
                    "{}: more than {} bytes of texts at once; take fewer with --limit{}", path.string(), kMostHeld,
                    in_order ? "" : ", and convert --tokens before a --shuffle");
            all.push_back(std::move(text));
        }
        const bool enough = in_order && choice.limit > 0 && seen - choice.skip >= choice.limit;
        return !enough && (first == 0 || seen < first);
    });
    require(seen > 0, Exit::kNoInput, "{}: {}", path.string(),
            is_folder(path) ? "its files have no lines" : "has no lines");
    const std::vector<int64_t> order = chosen(seen, choice, path.string(), "texts");
    DataSet set;
    for (const int64_t t : order) {
        set.texts.push_back(std::move(all[index(in_order ? t - choice.skip : t)]));
    }
    return set;
}

}  // namespace

void DataSet::require_made_by(const Tokenizer* tokenizer, std::optional<bool> add_special) const {
    if (!made) return;
    require(tokenizer != nullptr, Exit::kNoInput,
            "{}: token ids, and the model brings no tokenizer to compare theirs with; give --tokenizer PATH",
            made->path);
    const std::string other = made->tokenizer.difference(TokenizerIdentity::of(*tokenizer));
    require(other.empty(), Exit::kData,
            "{}: its ids are of another tokenizer than the model's: {}; convert --tokens with this model", made->path,
            other);
    require(!add_special || *add_special == made->add_special, Exit::kConfig,
            "--add-special={} with {}: its ids were made with --add-special={}, and are not changed; convert "
            "--tokens again",
            add_special.value_or(false) ? "on" : "off", made->path, made->add_special ? "on" : "off");
}

DataSet read_data(const Options& o, const DataChoice& choice, const StillWaiting& waiting, int64_t most) {
    const fs::path path = o.dataset.empty() ? fs::path(o.data) : folder_of(o);
    if (is_data_store(path)) return from_store(path, choice, waiting, most);
    return from_texts(path, o.dataset == "gs" ? kFirstOfGs : 0, choice, waiting);
}

std::vector<int64_t> ids_of(const DataText& t, const Tokenizer* tokenizer, bool add_special) {
    if (t.ids) return *t.ids;
    require(tokenizer != nullptr, Exit::kNoInput,
            "{}: a text, and the model brings no tokenizer; give --tokenizer PATH, or input_ids", t.where);
    const std::vector<int32_t> ids = encode_prompt(*tokenizer, t.text, add_special);
    return {ids.begin(), ids.end()};
}

}  // namespace trireme
