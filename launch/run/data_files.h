#pragma once
/// Texts as files have them: what --data and --tokens name, unless that is a store of token ids.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launch/run/crew.h"

namespace trireme {

/// A text: characters, or ids.
struct DataText {
    std::string where;  // for messages: "texts/books.jsonl:3"
    std::string name;   // in the data set: "books.jsonl:3"
    std::string text;
    std::optional<std::vector<int64_t>> ids;  // instead of `text`; they are not checked against a vocabulary
};

/// Returns whether it wants another one.
using OnText = std::function<bool(DataText text)>;

/// Calls `visit` with every text of a file (- is stdin) or of a folder's files, in the order of the files' names; one
/// text at a time is in memory. A .jsonl or .json file has one a line (prompt, text or input_ids), any other file is
/// one; of a folder those that end in .txt, .jsonl or .json are read. `waiting`: as read_text_file_or_stdin. Errors: of
/// the files; Exit::kNoInput for a folder without such files, kData for a line that holds no text, for a text beyond
/// 1 GiB, and for a store.
void for_texts(const std::filesystem::path& path, const StillWaiting& waiting, const OnText& visit);

bool is_folder(const std::filesystem::path& path);
/// Whether it is one of our stores, or an HDF5 file by its name. Never waits for a pipe.
bool is_data_store(const std::filesystem::path& path);

}  // namespace trireme
