#pragma once
/// What --data and --dataset name: texts, or a store of token ids, of which a run takes what --shuffle, --skip and
/// --limit say.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/data_files.h"
#include "model/tokenizer/tokenizer_identity.h"

namespace trireme {

struct DataSet {
    std::vector<DataText> texts;
    /// Of a store: who made its ids, with or without what stands around a text.
    struct Made {
        std::string path;
        TokenizerIdentity tokenizer;
        bool add_special = false;
    };
    std::optional<Made> made;

    /// Whether ids of a store mean to `tokenizer` (null: there is none) what they meant to their own one. Errors:
    /// Exit::kData for another one, naming what differs; kConfig where `add_special` contradicts the store; kNoInput
    /// without a tokenizer.
    void require_made_by(const Tokenizer* tokenizer, std::optional<bool> add_special) const;
};

/// What `choice` takes of what --data and --dataset name. Of a store's texts the first `most` ids are read. Errors: of
/// the files and of chosen(); Exit::kNoInput where there are no texts, kData beyond 4 GiB of them at once.
DataSet read_data(const Options& options, const DataChoice& choice, const StillWaiting& waiting = {},
                  int64_t most = INT64_MAX);

/// A text's ids, as they are, or as `tokenizer` (null: there is none) encodes it. Errors: Exit::kNoInput.
std::vector<int64_t> ids_of(const DataText& text, const Tokenizer* tokenizer, bool add_special);

}  // namespace trireme
