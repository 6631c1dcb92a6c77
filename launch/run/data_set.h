#pragma once
/// The texts that a run takes from --data or --dataset: from text files, or from a store of token ids, selected by
/// --shuffle, --skip and --limit.

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
    /// Origin of a store's ids: the tokenizer, and whether it added special tokens. Not set for text files.
    struct Made {
        std::string path;
        TokenizerIdentity tokenizer;
        bool add_special = false;
    };
    std::optional<Made> made;

    /// Checks that `tokenizer` (null: there is none) gives a store's ids the meaning that their own tokenizer did.
    /// Errors: Exit::kData for another tokenizer, naming the difference; kConfig if `add_special` contradicts the
    /// store; kNoInput without a tokenizer.
    void require_made_by(const Tokenizer* tokenizer, std::optional<bool> add_special) const;
};

/// Reads the texts that `choice` selects from --data or --dataset, and of a store's texts at most the first `most` ids.
/// Errors: of the files and of chosen(); Exit::kNoInput if there are no texts, kData for more than 4 GiB of them.
DataSet read_data(const Options& options, const DataChoice& choice, const StillWaiting& waiting = {},
                  int64_t most = INT64_MAX);

/// Returns a text's ids, or encodes it with `tokenizer` (null: there is none). Errors: Exit::kNoInput.
std::vector<int64_t> ids_of(const DataText& text, const Tokenizer* tokenizer, bool add_special);

}  // namespace trireme
