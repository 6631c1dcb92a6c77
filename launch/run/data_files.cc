#include "launch/run/data_files.h"

#include <algorithm>
#include <system_error>

#include "launch/flags/text_file.h"
#include "launch/run/prompt.h"
#include "model/files/json.h"
#include "model/files/store/reader.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostTextBytes = size_t{1} << 30;  // the limit of one text

bool holds_lines(const fs::path& path) {
    return path.extension() == ".jsonl" || path.extension() == ".json";
}

/// The text of a line, or of a choice. TensorRT-LLM's data sets have prompt or input_ids, TriForce's books text.
DataText text_of(const Json& json, const std::string& where, std::string name) {
    require(json.is_object(), Exit::kData, "{}: holds {}, want an object with prompt, text or input_ids", where,
            json.type_name());
    DataText out = {.where = where, .name = std::move(name), .text = "", .ids = {}};
    if (const auto ids = json.find("input_ids"); ids != json.end()) {
        out.ids = parse_ids(ids->dump(), where + ": input_ids");
        require(!out.ids->empty(), Exit::kData, "{}: input_ids is empty", where);
        return out;
    }
    for (const char* key : {"prompt", "text"}) {
        const auto found = json.find(key);
        if (found == json.end()) continue;
        require(found->is_string(), Exit::kData, "{}: {} is {}, want a text", where, key, found->type_name());
        out.text = found->get<std::string>();
        return out;
    }
    fail(Exit::kData, "{}: has neither prompt nor text nor input_ids", where);
}

/// The texts of one line of a .jsonl file; several if it is an output of batch for several samples.
std::vector<DataText> texts_of_line(std::string_view line, const std::string& where, const std::string& name) {
    // A line of batch's output holds a request, which is at most 32 deep (batch_requests.cc), one level deeper.
    const Json json = parse_json(line, where, {.depth = 40, .bytes = kMostTextBytes});
    const Json::json_pointer choices("/result/choices");
    if (!json.contains("request") || !json.contains(choices)) return {text_of(json, where, name)};
    std::vector<DataText> all;
    for (const Json& choice : json.at(choices)) all.push_back(text_of(choice, where, name));
    return all;
}

/// Visits the texts of one file. Returns false if `visit` did.
bool for_texts_of_file(const fs::path& path, const StillWaiting& waiting, const OnText& visit) {
    const std::string where = path.string(), name = where == "-" ? "stdin" : path.filename().string();
    require(!is_data_store(path), Exit::kData, "{}: is a store of token ids already, or another HDF5 file; want texts",
            where);
    if (!holds_lines(path)) {
        return visit(
            {.where = where, .name = name, .text = read_text_file_or_stdin(where, kMostTextBytes, waiting), .ids = {}});
    }
    bool more = true;
    for_lines_of(where, kMostTextBytes, waiting, [&](std::string_view line, int64_t number) {
        const std::string at = fmt::format(":{}", number);
        for (DataText& text : texts_of_line(line, where + at, name + at)) more = more && visit(std::move(text));
        return more;
    });
    return more;
}

/// A folder's text files, sorted. Warns of other files.
std::vector<fs::path> texts_in(const fs::path& folder) {
    std::vector<fs::path> files, others;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
        const fs::path& path = it->path();
        const bool text = path.extension() == ".txt" || holds_lines(path);
        (text ? files : others).push_back(path);
    }
    require(!error, Exit::kNoInput, "{}: cannot be read: {}", folder.string(), error.message());
    require(!files.empty(), Exit::kNoInput, "{}: no texts there; want files that end in .txt, .jsonl or .json",
            folder.string());
    if (!others.empty()) {
        log::warn("{}: {} of its files are no texts (.txt, .jsonl, .json), the first is {}", folder.string(),
                  others.size(), std::min_element(others.begin(), others.end())->filename().string());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace

bool is_folder(const fs::path& path) {
    std::error_code ignored;  // opening the path will report it
    return fs::is_directory(path, ignored);
}

bool is_data_store(const fs::path& path) {
    std::error_code ignored;
    if (!fs::is_regular_file(path, ignored)) return false;
    return path.extension() == ".h5" || path.extension() == ".hdf5" || is_store(*open_file(path));
}

void for_texts(const fs::path& path, const StillWaiting& waiting, const OnText& visit) {
    if (!is_folder(path)) {
        for_texts_of_file(path, waiting, visit);
        return;
    }
    for (const fs::path& file : texts_in(path)) {
        if (!for_texts_of_file(file, waiting, visit)) return;
    }
}

}  // namespace trireme
