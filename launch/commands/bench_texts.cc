#include "launch/commands/bench_texts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "launch/run/prompt.h"
#include "launch/run/text_file.h"
#include "model/files/json.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostBytes = size_t{1} << 30;  // of one file
constexpr size_t kFirstOfGs = 20;               // TriForce's

bool holds_lines(const fs::path& path) {
    return path.extension() == ".jsonl" || path.extension() == ".json";
}

/// One line of a .jsonl file. TensorRT-LLM's data sets have prompt or input_ids, TriForce's books text.
DataText text_of_line(std::string_view line, const std::string& where) {
    const Json json = parse_json(line, where, {.depth = 8, .bytes = kMostBytes});
    require(json.is_object(), Exit::kData, "{}: holds {}, want an object with prompt, text or input_ids", where,
            json.type_name());
    DataText out = {.where = where, .text = "", .ids = {}};
    if (const auto ids = json.find("input_ids"); ids != json.end()) {
        out.ids = parse_ids(ids->dump(), where + ": input_ids");
        require(!out.ids.empty(), Exit::kData, "{}: input_ids is empty", where);
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

void read_file(std::vector<DataText>& all, const fs::path& path, const StillWaiting& waiting) {
    std::string text = read_text_file_or_stdin(path.string(), kMostBytes, waiting);
    if (!holds_lines(path)) {
        all.push_back({.where = path.string(), .text = std::move(text), .ids = {}});
        return;
    }
    for_lines(text, [&](std::string_view line, int64_t number) {
        all.push_back(text_of_line(line, fmt::format("{}:{}", path.string(), number)));
    });
}

/// A folder's texts; what is none is said.
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

bool is_folder(const fs::path& path) {
    std::error_code ignored;  // whoever opens it says why not
    return fs::is_directory(path, ignored);
}

fs::path folder_of(const Options& o) {
    const fs::path all = o.data.empty() ? "data" : o.data;
    const fs::path own = all / (o.dataset == "gs" || o.dataset == "128k" ? "pg19" : o.dataset);
    require(is_folder(own), Exit::kNoInput,
            "--dataset {}: no folder {}; put its texts there, or say with --data where the data sets are", o.dataset,
            own.string());
    return own;
}

/// The ids of every text that has been read, before any is cut.
std::vector<DataText> all_ids(const Options& o, const Checkpoint& files, const StillWaiting& waiting) {
    const bool special = o.add_special.value_or(true);
    if (o.prompt_from != PromptFrom::kData) {
        return {
            {.where = "the prompt", .text = "", .ids = read_prompt_ids(o, files.tokenizer.get(), special, waiting)}};
    }
    std::vector<DataText> all = read_data(o, waiting);
    for (DataText& t : all) {
        waiting();
        if (t.ids.empty()) {
            require(files.tokenizer != nullptr, Exit::kNoInput,
                    "{}: a text, and the model brings no tokenizer; give --tokenizer PATH, or input_ids", t.where);
            const std::vector<int32_t> ids = encode_prompt(*files.tokenizer, t.text, special);
            t.ids.assign(ids.begin(), ids.end());
            t.text = {};
        }
    }
    return all;
}

BenchTexts cut(const std::vector<DataText>& texts, const Options& o, const Checkpoint& files, int64_t longest,
               int64_t n) {
    require(texts.size() == 1 || o.prefill > 0, Exit::kUsage,
            "{} texts: say with --prefill TOKENS to which length they are cut, so that one row can tell of all",
            texts.size());
    BenchTexts out;
    size_t most = 0;
    for (const DataText& text : texts) {
        std::vector<int64_t> ids = text.ids;
        most = std::max(most, ids.size());
        if (static_cast<int64_t>(ids.size()) < o.prefill) {
            ++out.left_out;
            continue;
        }
        if (o.prefill > 0) ids.resize(static_cast<size_t>(o.prefill));
        out.ids.push_back(checked_ids(ids, files.config().vocab, INT64_MAX, Command::kBench, text.where));
    }
    require(!out.ids.empty(), Exit::kConfig, "--prefill {}: none of {} text{} is that long; the longest has {} tokens",
            o.prefill, texts.size(), texts.size() == 1 ? "" : "s", most);
    require(out.tokens() + n <= longest, Exit::kConfig,
            "the prompt has {} tokens, -n adds {}, and the context has {}: lower --prefill or -n, or raise -c",
            out.tokens(), n, longest);
    if (out.left_out > 0) {
        log::warn("{} of {} texts have fewer than {} tokens and are left out", out.left_out, texts.size(), o.prefill);
    }
    return out;
}

/// What rank 0 has, on every rank.
BenchTexts shared(const Crew& crew, const BenchTexts& mine) {
    std::string bytes;
    const auto put = [&](const void* from, size_t n) { bytes.append(static_cast<const char*>(from), n); };
    if (crew.first()) {
        const std::array<int64_t, 2> head = {mine.left_out, mine.tokens()};
        put(head.data(), sizeof head);
        for (const std::vector<int32_t>& ids : mine.ids) put(ids.data(), ids.size() * sizeof(int32_t));
    }
    crew.comm().broadcast(bytes);
    std::array<int64_t, 2> head = {};
    std::memcpy(head.data(), bytes.data(), sizeof head);
    BenchTexts out;
    out.left_out = head[0];
    const size_t size = static_cast<size_t>(head[1]) * sizeof(int32_t);
    for (size_t at = sizeof head; at < bytes.size(); at += size) {
        out.ids.emplace_back(static_cast<size_t>(head[1]));
        std::memcpy(out.ids.back().data(), bytes.data() + at, size);
    }
    return out;
}

}  // namespace

std::vector<DataText> read_data(const Options& o, const StillWaiting& waiting) {
    const fs::path path = o.dataset.empty() ? fs::path(o.data) : folder_of(o);
    std::vector<DataText> all;
    if (!is_folder(path)) {
        read_file(all, path, waiting);
        require(!all.empty(), Exit::kNoInput, "{}: has no lines", path.string());
        return all;
    }
    for (const fs::path& file : texts_in(path)) {
        read_file(all, file, waiting);
        if (o.dataset == "gs" && all.size() >= kFirstOfGs) break;
    }
    require(!all.empty(), Exit::kNoInput, "{}: its files have no lines", path.string());
    if (o.dataset == "gs" && all.size() > kFirstOfGs) all.resize(kFirstOfGs);
    return all;
}

BenchTexts read_bench_texts(const Start& start, const Crew& crew, const Engine& engine, int64_t n) {
    BenchTexts mine;
    crew.first_only_waiting([&](const StillWaiting& waiting) {
        const Options& o = start.call.options;
        mine = cut(all_ids(o, engine.checkpoint(), waiting), o, engine.checkpoint(), engine.longest_context(), n);
    });
    return shared(crew, mine);
}

}  // namespace trireme
