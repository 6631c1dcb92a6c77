#pragma once
/// Text files of a data set: reads the texts of the files that --data and --tokens name. Stores of token ids are read
/// elsewhere (data_set.h).

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/rank_group.h"

namespace trireme {

/// A text, as characters or as token ids.
struct DataText {
    std::string where;  // for messages: "texts/books.jsonl:3"
    std::string name;   // in the data set: "books.jsonl:3"
    std::string text;
    std::optional<std::vector<int64_t>> ids;  // instead of `text`; they are not checked against a vocabulary
};

/// Receives a text; returns whether to continue with the next one.
using OnText = std::function<bool(DataText text)>;

/// Calls `visit` with every text of a file (- is stdin) or of a folder's files, sorted by path. One text at a time is
/// in memory. A .jsonl or .json file has one text a line (prompt, text, input_ids, or the choices of an output of
/// batch); any other file is one text. In a folder, files that end in .txt, .jsonl or .json are read. `waiting`: as
/// read_text_file_or_stdin. Errors: those of the files; Exit::kNoInput for a folder without such files; Exit::kData for
/// a line without a text, for a text larger than 1 GiB, and for a store.
void for_texts(const std::filesystem::path& path, const StillWaiting& waiting, const OnText& visit);

bool is_folder(const std::filesystem::path& path);
/// Whether the path is a regular file that is a store (model/files/store/sets.h), or is named .h5 or .hdf5. Does not
/// open pipes.
bool is_data_store(const std::filesystem::path& path);

}  // namespace trireme
