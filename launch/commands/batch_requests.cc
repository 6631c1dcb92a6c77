#include "launch/commands/batch_requests.h"

#include <array>

#include "launch/flags/flags.h"
#include "launch/flags/text_file.h"
#include "launch/run/data_choice.h"
#include "launch/run/prompt.h"
#include "model/files/store/digest.h"
#include "runtime/index.h"
#include "runtime/log.h"
#include "runtime/random.h"

namespace trireme {
namespace {

constexpr size_t kMostRequestBytes = size_t{1} << 30;  // of all requests
constexpr int kMostDepth = 32;                         // nesting of a request's JSON

/// Numbers that a request may set, and the corresponding flags.
constexpr std::array<std::pair<const char*, const char*>, 6> kNumbers = {{{"max_tokens", "n-predict"},
                                                                          {"temperature", "temp"},
                                                                          {"top_p", "top-p"},
                                                                          {"top_k", "top-k"},
                                                                          {"min_p", "min-p"},
                                                                          {"seed", "seed"}}};

/// Returns a member of the request; null if it is absent or null.
const Json* member(const BatchLine& line, const char* key) {
    const auto found = line.object.find(key);
    return found == line.object.end() || found->is_null() ? nullptr : &*found;
}

void read_stops(BatchLine& line) {
    const Json* stop = member(line, "stop");
    if (stop == nullptr) return;
    const Json list = stop->is_array() ? *stop : Json::array({*stop});
    for (const Json& text : list) {
        require(text.is_string() && !text.get_ref<const std::string&>().empty(), Exit::kData,
                "{}: stop holds {}, want a text that is not empty, or a list of them", line.where,
                text.is_string() ? "an empty one" : text.type_name());
        line.settings.emplace_back("stop", text.get<std::string>());
    }
}

void read_settings(BatchLine& line) {
    for (const auto& [key, flag] : kNumbers) {
        const Json* value = member(line, key);
        if (value == nullptr) continue;
        require(value->is_number(), Exit::kData, "{}: {} is {}, want a number", line.where, key, value->type_name());
        const std::string text = value->dump();
        Options scratch;
        find_key(flag)->set(scratch, {fmt::format("{}: {}", line.where, key), text});
        require(scratch.n_predict != 0, Exit::kConfig, "{}: {} is 0, want 1 or more, or -1", line.where, key);
        const bool drawn = std::string_view(flag) == "seed" && !scratch.seed;
        line.settings.emplace_back(flag, drawn ? fmt::format("{}", drawn_by_system(line.where)) : text);
        if (drawn) log::info("{}: seed {}, drawn (seed -1)", line.where, line.settings.back().second);
    }
    read_stops(line);
}

const char* prompt_key(const BatchLine& line) {
    for (const char* key : {"input_ids", "messages", "prompt", "article"}) {
        if (member(line, key) != nullptr) return key;
    }
    fail(Exit::kData, "{}: has neither prompt nor messages nor input_ids nor article", line.where);
}

void require_prompt(const BatchLine& line) {
    const std::string key = prompt_key(line);
    const Json& prompt = line.object.at(key);
    const bool ids = key == "input_ids", messages = key == "messages";
    require(ids || messages ? prompt.is_array() : prompt.is_string(), Exit::kData, "{}: {} is {}, want {}", line.where,
            key, prompt.type_name(),
            ids        ? "an array of token ids"
            : messages ? "an array of messages"
                       : "a text");
}

/// The text of a request with messages. Their members keep the order that they have in the line.
std::string chat_prompt(const BatchLine& line, const Options& o, ChatRenderer& chat) {
    nlohmann::ordered_json object = nlohmann::ordered_json::parse(line.text);
    if (line.openai) object = nlohmann::ordered_json(std::move(object["body"]));
    ChatRenderer::Conversation talk = {.messages = std::move(object["messages"]), .tools = object["tools"]};
    const auto is_system = [](const nlohmann::ordered_json& m) {
        return m.is_object() && m.contains("role") && m.at("role") == "system";
    };
    if (!o.system.empty() && (talk.messages.empty() || !is_system(talk.messages[0]))) {
        const nlohmann::ordered_json system = {{"role", "system"}, {"content", o.system}};
        talk.messages.insert(talk.messages.begin(), system);
    }
    return chat.prompt_of(talk, line.where);
}

}  // namespace

Options BatchRequest::options(const Options& run) const {
    Options own = run;
    bool stops = false;
    for (const auto& [flag, text] : settings) {
        const bool stop = flag == "stop";
        find_key(flag)->set(own, {flag, text, /*first=*/!(stop && stops)});
        stops = stops || stop;
    }
    return own;
}

std::string BatchLine::reference(const std::string& key) const {
    const Json* found = member(*this, key.c_str());
    require(found != nullptr && found->is_string(), Exit::kData,
            "{}: {} is {}, want the text that --rouge compares with", where, key,
            found == nullptr ? "not there" : found->type_name());
    return found->get<std::string>();
}

BatchLine read_batch_line(Json object, std::string_view text, std::string where) {
    BatchLine line = {
        .where = std::move(where), .text = std::string(text), .object = std::move(object), .settings = {}};
    require(line.object.is_object(), Exit::kData,
            "{}: holds {}, want an object with prompt, messages, input_ids or article, or OpenAI's custom_id and body",
            line.where, line.object.type_name());
    if (!is_openai(line.object)) {
        require_prompt(line);
        read_settings(line);
        return line;
    }
    line.openai = read_openai(line.object, text, line.where);
    try {
        line.object = own_form(*line.openai, line.object.at("body"), line.where);
        require_prompt(line);
        read_settings(line);
    } catch (const Error& e) {
        line.bad = e.what();
    }
    return line;
}

std::vector<BatchLine> parse_batch_lines(std::string_view text, const std::string& name, const DataChoice& choice,
                                         const StillWaiting& waiting) {
    std::vector<std::pair<std::string_view, int64_t>> lines;
    for_lines(text, [&](std::string_view line, int64_t number) { lines.emplace_back(line, number); });
    std::vector<BatchLine> all;
    for (const int64_t i : chosen(static_cast<int64_t>(lines.size()), choice, name, "requests")) {
        if (waiting) waiting();
        const auto& [line, number] = lines[index(i)];
        std::string where = fmt::format("{}:{}", name, number);
        Json object = parse_json(line, where, {.depth = kMostDepth, .bytes = kMostRequestBytes});
        all.push_back(read_batch_line(std::move(object), line, std::move(where)));
    }
    return all;
}

std::vector<BatchLine> read_batch_lines(const Options& o, const DataChoice& choice, const StillWaiting& waiting) {
    const std::string name = o.input == "-" ? "stdin" : o.input;
    require(!is_data_store(o.input), Exit::kData, "{}: is an HDF5 file; token ids are given with --data", name);
    std::vector<BatchLine> all =
        parse_batch_lines(read_text_file_or_stdin(o.input, kMostRequestBytes, waiting), name, choice, waiting);
    require(!all.empty(), Exit::kNoInput, "{}: has no lines; want a JSON object a line", name);
    return all;
}

std::vector<BatchLine> lines_of(std::vector<DataText> texts) {
    std::vector<BatchLine> all;
    for (DataText& t : texts) {
        const uint64_t digest = t.ids ? XXH3_64bits(t.ids->data(), t.ids->size() * sizeof(int64_t))
                                      : XXH3_64bits(t.text.data(), t.text.size());
        const Json said = {{"source", t.name}, {"digest", hex(digest)}};
        BatchLine line = {.where = t.where,
                          .text = said.dump(-1, ' ', false, Json::error_handler_t::replace),
                          .object = {},
                          .settings = {},
                          .data = std::move(t)};
        line.object = Json::parse(line.text);  // a name may be invalid UTF-8: compared as written to the output
        all.push_back(std::move(line));
    }
    return all;
}

std::vector<int32_t> prompt_of(const BatchLine& line, const Options& o, const Checkpoint& files, ChatRenderer& chat,
                               int64_t context) {
    const auto checked = [&](const std::vector<int64_t>& ids, const std::string& what) {
        return checked_ids(ids, files.config().vocab, context, Command::kBatch, what);
    };
    const bool templates = o.chat && !(line.openai && !line.openai->chat);  // an OpenAI completion has none
    const auto ids_of_text = [&](const std::string& text, bool rendered) {
        const std::vector<int32_t> ids =
            encode_prompt(*files.tokenizer, text, !rendered && o.add_special.value_or(true));
        return std::vector<int64_t>(ids.begin(), ids.end());
    };
    const auto ids_with_template = [&](const std::string& text) {
        if (!templates) return ids_of_text(text, false);
        return ids_of_text(chat.prompt_of({ChatRenderer::messages_of(o.system, text)}, line.where), true);
    };
    if (line.data) {
        if (templates && !line.data->ids) return checked(ids_with_template(line.data->text), line.where);
        return checked(ids_of(*line.data, files.tokenizer.get(), o.add_special.value_or(true)), line.where);
    }
    const std::string key = prompt_key(line), what = fmt::format("{}: {}", line.where, key);
    const Json& prompt = line.object.at(key);
    if (key == "input_ids") return checked(parse_ids(prompt.dump(), what), what);
    if (key == "messages") return checked(ids_of_text(chat_prompt(line, o, chat), true), what);
    return checked(ids_with_template(prompt.get_ref<const std::string&>()), what);
}

std::vector<BatchRequest> shared(const RankGroup& rank_group, const std::vector<BatchRequest>& mine) {
    std::string bytes;
    if (rank_group.first()) {
        Json all = Json::array();
        for (const BatchRequest& r : mine) all.push_back({r.index, r.ids, r.settings});
        bytes = all.dump();
    }
    rank_group.comm().broadcast(bytes);
    std::vector<BatchRequest> out;
    for (const Json& r : Json::parse(bytes)) {
        out.push_back({r.at(0), r.at(1), r.at(2)});
    }
    return out;
}

}  // namespace trireme
