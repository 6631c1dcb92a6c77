#include "launch/commands/pipe_requests.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "launch/flags/parse.h"
#include "launch/run/prompt.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = PipeRequest::Kind;

constexpr int kMostDepth = 32;  // nesting of a request's JSON

const std::string& text_of(const Json& object, const char* key, const std::string& where) {
    const Json& value = object.at(key);
    require(value.is_string(), Exit::kData, "{}: {} is {}, want a text", where, key, value.type_name());
    return value.get_ref<const std::string&>();
}

bool flag_of(const Json& object, const char* key, bool otherwise, const std::string& where) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return otherwise;
    require(found->is_boolean(), Exit::kData, "{}: {} is {}, want true or false", where, key, found->type_name());
    return found->get<bool>();
}

int64_t number_of(const Json& object, const char* key, int64_t least, int64_t most, int64_t otherwise,
                  const std::string& where) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return otherwise;
    return Setting{fmt::format("{}: {}", where, key), found->dump()}.integer(least, most);
}

/// Drops the first ids of a prompt that leaves no room for the tokens to generate.
void cut_prompt(BatchRequest& request, const Options& o, int64_t context, const std::string& where) {
    const int64_t wanted = request.options(o).n_predict;
    const int64_t room = context - std::max<int64_t>(wanted, 1);
    require(room >= 1, Exit::kConfig, "{}: max_tokens {} leaves no room for a prompt in a context of {}", where, wanted,
            context);
    if (request.tokens() > room) request.ids.erase(request.ids.begin(), request.ids.end() - room);
}

PipeRequest continuation(std::string_view text, Json object, int64_t index, const Options& o, const Checkpoint& files,
                         ChatRenderer& chat, int64_t context, const std::string& where) {
    Options own = o;
    own.add_special = flag_of(object, "add_special", o.add_special.value_or(true), where);
    const bool cuts = flag_of(object, "truncate_left", false, where), streams = flag_of(object, "stream", false, where);
    const BatchLine line = read_batch_line(std::move(object), text, where);
    if (!line.bad.empty()) fail(Exit::kData, "{}", line.bad);
    BatchRequest request = {.index = index,
                            .ids = prompt_of(line, own, files, chat, cuts ? INT64_MAX : context),
                            .settings = line.settings,
                            .streams = streams};
    if (cuts) cut_prompt(request, o, context, where);
    return {.kind = Kind::kContinue, .index = index, .continued = std::move(request)};
}

PipeRequest read(std::string_view text, int64_t index, const Options& o, const Checkpoint& files, ChatRenderer& chat,
                 int64_t context, const std::string& where) {
    Json object = parse_json(text, where, {.depth = kMostDepth});
    require(object.is_object(), Exit::kData,
            "{}: holds {}, want an object with prompt, messages, input_ids, context and continuation, rolling, "
            "text, tokenize or render",
            where, object.type_name());
    const Tokenizer& tokenizer = *files.tokenizer;
    const bool special = flag_of(object, "add_special", o.add_special.value_or(true), where);
    const auto checked = [&](const std::vector<int32_t>& ids) {
        return checked_ids({ids.begin(), ids.end()}, files.config().vocab, INT64_MAX, Command::kScore, where);
    };
    const bool pair = object.contains("context") && object.contains("continuation");
    const auto any_of = [&](std::initializer_list<const char*> keys) {
        return std::ranges::any_of(keys, [&](const char* key) { return object.contains(key); });
    };
    require(pair || !any_of({"context", "continuation"}), Exit::kData,
            "{}: has a context or a continuation alone; want both", where);
    require(pair || any_of({"prompt", "messages", "input_ids", "article", "rolling", "text", "tokenize", "render"}),
            Exit::kData,
            "{}: has none of prompt, messages, input_ids, context and continuation, rolling, text, tokenize, render",
            where);
    require(!(pair || object.contains("rolling") || object.contains("text")) || o.eviction.policy == KvPolicy::kFull ||
                o.eviction.budget_share == 0,
            Exit::kConfig,
            "{}: --kv-window {} is a fraction, and scored texts share one cache; want a number of tokens", where,
            o.eviction.budget_share);
    if (pair) {
        Pair made = encode_pair(tokenizer, text_of(object, "context", where), text_of(object, "continuation", where),
                                special, where);
        made.ids = checked(made.ids);
        cut_pair(made, context, where);
        return {.kind = Kind::kPair, .index = index, .pair = std::move(made)};
    }
    if (object.contains("rolling")) {
        const std::vector<int32_t> ids = rolling_ids(tokenizer, text_of(object, "rolling", where), special, where);
        const auto n = static_cast<int64_t>(ids.size());
        return {.kind = Kind::kRolling,
                .index = index,
                .pair = {.ids = checked(ids)},
                .windows = rolling_windows(n, context)};
    }
    if (object.contains("text")) {
        const std::vector<int32_t> ids = encode_prompt(tokenizer, text_of(object, "text", where), special);
        const int64_t window = number_of(object, "window", 2, context, context, where);
        const int64_t stride = number_of(object, "stride", 1, window, window, where);
        const auto n = static_cast<int64_t>(ids.size());
        return {.kind = Kind::kRolling,
                .index = index,
                .pair = {.ids = checked(ids)},
                .windows = sliding_windows(n, window, stride)};
    }
    OrderedJson answer = {{"index", index}};
    if (object.contains("tokenize")) {
        answer["ids"] = encode_prompt(tokenizer, text_of(object, "tokenize", where), special);
    } else if (object.contains("render")) {
        OrderedJson messages = std::move(OrderedJson::parse(text)["render"]);
        answer["text"] = chat.prompt_of({.messages = std::move(messages)}, where);
    } else {
        return continuation(text, std::move(object), index, o, files, chat, context, where);
    }
    return {.index = index, .answer = answer_line(answer)};
}

}  // namespace

std::string answer_line(const OrderedJson& answer) {
    return answer.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

PipeRequest read_pipe_request(std::string_view text, int64_t index, const Options& o, const Checkpoint& files,
                              ChatRenderer& chat, int64_t context) {
    try {
        return read(text, index, o, files, chat, context, fmt::format("request {}", index));
    } catch (const Error& e) {
        return {.index = index, .answer = answer_line({{"index", index}, {"error", e.what()}})};
    }
}

std::vector<PipeRequest> shared(const RankGroup& rank_group, std::vector<PipeRequest> mine) {
    if (rank_group.comm().size() == 1) return mine;
    std::string bytes;
    if (rank_group.first()) {
        Json all = Json::array();
        for (const PipeRequest& r : mine) {
            const bool text = r.kind == Kind::kContinue;
            Json windows = Json::array();
            for (const ScoreWindow& w : r.windows) windows.push_back({w.begin, w.end, w.first});
            all.push_back({static_cast<int>(r.kind), r.index, text ? r.continued.ids : r.pair.ids, r.pair.begin,
                           r.continued.settings, r.continued.streams, windows});
        }
        bytes = all.dump();
    }
    rank_group.comm().broadcast(bytes);
    if (rank_group.first()) return mine;
    for (const Json& r : Json::parse(bytes)) {
        PipeRequest one = {.kind = static_cast<Kind>(r.at(0).get<int>()), .index = r.at(1)};
        if (one.kind == Kind::kContinue) {
            one.continued = {.index = one.index, .ids = r.at(2), .settings = r.at(4), .streams = r.at(5)};
        } else {
            one.pair = {.ids = r.at(2), .begin = r.at(3)};
            for (const Json& w : r.at(6)) {
                one.windows.push_back({.begin = w.at(0), .end = w.at(1), .first = w.at(2)});
            }
        }
        mine.push_back(std::move(one));
    }
    return mine;
}

}  // namespace trireme
