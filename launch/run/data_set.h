#pragma once
/// DataSet: the texts that a run of bench, score or batch takes from --data or --dataset. They are read from text
/// files, or from a store of token ids (convert --tokens), and selected by --shuffle, --skip and --limit. Used on rank
/// 0.

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

    /// Checks that `tokenizer` (null: there is none) is the one that made a store's ids. `add_special`: --add-special;
    /// not set: as the store. Does nothing for text files. Errors: Exit::kData for another tokenizer, naming the
    /// difference; kConfig if `add_special` contradicts the store; kNoInput without a tokenizer.
    void require_made_by(const Tokenizer* tokenizer, std::optional<bool> add_special) const;
};

/// Reads the texts that `choice` selects from --data or --dataset, and of a store's texts at most the first `most` ids.
/// `waiting`: as read_text_file_or_stdin. Errors: of the files and of chosen(); Exit::kNoInput if there are no texts,
/// kData for more than 4 GiB of them.
DataSet read_data(const Options& options, const DataChoice& choice, const StillWaiting& waiting = {},
                  int64_t most = INT64_MAX);

/// Returns a text's ids, or encodes it with `tokenizer`. Errors: Exit::kNoInput if that is null and required.
std::vector<int64_t> ids_of(const DataText& text, const Tokenizer* tokenizer, bool add_special);

}  // namespace trireme
