#include "launch/commands/openai_batch.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "model/files/shown.h"
#include "model/files/store/digest.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr const char *kCompletion = "/v1/completions", *kChat = "/v1/chat/completions";
constexpr int64_t kDefaultTokens = 16;  // of a completion

std::string dump(const Ordered& json) {
    return json.dump(-1, ' ', false, Ordered::error_handler_t::replace);
}

/// Members of a body that have one supported value.
const std::pair<const char*, Json> kOnly[] = {{"n", 1},
                                              {"best_of", 1},
                                              {"stream", false},
                                              {"echo", false},
                                              {"logprobs", false},
                                              {"suffix", ""},
                                              {"frequency_penalty", 0},
                                              {"presence_penalty", 0},
                                              {"logit_bias", Json::object()},
                                              {"response_format", {{"type", "text"}}}};

/// Members that change nothing here.
constexpr std::array kIgnored = {"model",          "user",         "metadata",           "store",
                                 "stream_options", "service_tier", "safety_identifier",  "prompt_cache_key",
                                 "tools",          "tool_choice",  "parallel_tool_calls"};

/// Copies of members whose names are those of batch's own form.
constexpr std::array kSame = {"temperature", "top_p", "top_k", "min_p", "seed", "stop"};

std::string text_member(const Json& line, const char* key, const std::string& where) {
    const auto found = line.find(key);
    require(found != line.end() && found->is_string(), Exit::kData, "{}: {} is {}, want a text", where, key,
            found == line.end() ? "not there" : found->type_name());
    return found->get<std::string>();
}

Ordered usage(const Continuation& made, int64_t prompt_tokens) {
    const auto made_tokens = static_cast<int64_t>(made.ids.size());
    return {{"prompt_tokens", prompt_tokens},
            {"completion_tokens", made_tokens},
            {"total_tokens", prompt_tokens + made_tokens}};
}

Ordered envelope(const OpenAiRequest& r, Ordered response, Ordered error) {
    return {{"id", openai_id(r)},
            {"custom_id", r.custom_id},
            {"response", std::move(response)},
            {"error", std::move(error)}};
}

}  // namespace

const char* finish_reason(StopReason stop) {
    return stop == StopReason::kLimit || stop == StopReason::kContext ? "length" : "stop";
}

bool is_openai(const Json& line) {
    return line.is_object() && line.contains("custom_id") && line.contains("body");
}

OpenAiRequest read_openai(const Json& line, std::string_view text, const std::string& where) {
    OpenAiRequest r = {
        .custom_id = text_member(line, "custom_id", where), .chat = false, .model = {}, .id = hex_digest(text)};
    const std::string method = line.contains("method") ? text_member(line, "method", where) : "POST";
    require(method == "POST", Exit::kData, "{}: method is {}, want POST", where, shown(method));
    const std::string url = text_member(line, "url", where);
    require(url == kCompletion || url == kChat, Exit::kData, "{}: url is {}, want {} or {}", where, shown(url),
            kCompletion, kChat);
    r.chat = url == kChat;
    const Json& body = line.at("body");
    require(body.is_object(), Exit::kData, "{}: body is {}, want an object", where, body.type_name());
    if (const auto model = body.find("model"); model != body.end() && model->is_string()) r.model = *model;
    return r;
}

Json own_form(const OpenAiRequest& r, const Json& body, const std::string& where) {
    const auto given = [&](const char* key) {
        const auto found = body.find(key);
        return found == body.end() || found->is_null() ? nullptr : &*found;
    };
    for (const auto& [key, value] : kOnly) {
        const Json* found = given(key);
        require(found == nullptr || *found == value, Exit::kData,
                "{}: {} is {}, want {}: batch supports no other value", where, key,
                found == nullptr ? "" : shown(found->dump(-1, ' ', true)), value.dump());
    }
    const Json* choice = given("tool_choice");
    require(choice == nullptr || *choice == "auto" || *choice == "none", Exit::kData,
            "{}: tool_choice is {}, want auto or none", where,
            choice == nullptr ? "" : shown(choice->dump(-1, ' ', true)));
    const auto is_known = [&](const std::string& key) {
        const auto in = [&](const auto& names) { return std::ranges::find(names, key) != std::end(names); };
        const bool only = std::ranges::any_of(kOnly, [&](const auto& one) { return key == one.first; });
        return only || in(kSame) || in(kIgnored) || key == "max_tokens" || key == "max_completion_tokens" ||
               key == (r.chat ? "messages" : "prompt");
    };
    for (const auto& [key, value] : body.items()) {
        require(value.is_null() || is_known(key), Exit::kData, "{}: batch does not support {}; leave it out", where,
                shown(key));
    }
    Json own = Json::object();
    for (const char* key : kSame) {
        if (const Json* found = given(key)) own[key] = *found;
    }
    const Json* most = given("max_completion_tokens");
    if (most == nullptr) most = given("max_tokens");
    if (most != nullptr) {
        own["max_tokens"] = *most;
    } else if (!r.chat) {
        own["max_tokens"] = kDefaultTokens;
    }
    if (r.chat) {
        const Json* messages = given("messages");
        require(messages != nullptr, Exit::kData, "{}: a chat completion has no messages", where);
        own["messages"] = *messages;
        return own;
    }
    const Json* prompt = given("prompt");
    require(prompt != nullptr, Exit::kData, "{}: a completion has no prompt", where);
    const bool list = prompt->is_array() && !prompt->empty();
    const bool one = list && prompt->size() == 1 && !prompt->front().is_number();
    const Json& value = one ? prompt->front() : *prompt;
    require(value.is_string() || (value.is_array() && !value.empty() && value.front().is_number()), Exit::kData,
            "{}: prompt is {}, want a text or token ids, one prompt a line", where,
            list ? "a list of several" : prompt->type_name());
    own[value.is_string() ? "prompt" : "input_ids"] = value;
    return own;
}

std::string openai_id(const OpenAiRequest& r) {
    return "trireme-" + r.id;
}

std::string openai_result(const OpenAiRequest& r, const std::string& model, const Continuation& made,
                          int64_t prompt_tokens, const std::string& fingerprint) {
    Ordered choice = {{"index", 0}};
    if (r.chat) {
        choice["message"] = {{"role", "assistant"}, {"content", made.text}, {"refusal", nullptr}};
    } else {
        choice["text"] = made.text;
    }
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = finish_reason(made.stop);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const Ordered body = {{"id", (r.chat ? "chatcmpl-" : "cmpl-") + r.id},
                          {"object", r.chat ? "chat.completion" : "text_completion"},
                          {"created", std::chrono::duration_cast<std::chrono::seconds>(now).count()},
                          {"model", r.model.empty() ? model : r.model},
                          {"choices", Ordered::array({choice})},
                          {"usage", usage(made, prompt_tokens)},
                          {"system_fingerprint", fingerprint}};
    return dump(envelope(r, {{"status_code", 200}, {"request_id", "trireme-batch-" + r.id}, {"body", body}}, nullptr));
}

std::string openai_error(const OpenAiRequest& r, const std::string& message, const std::string& fingerprint) {
    constexpr int kBadRequest = 400;
    const Ordered error = {
        {"message", message}, {"type", "BadRequestError"}, {"param", nullptr}, {"code", kBadRequest}};
    return dump(envelope(r, {{"status_code", kBadRequest}, {"request_id", "trireme-batch-" + r.id}, {"body", nullptr}},
                         {{"error", error}, {"system_fingerprint", fingerprint}}));
}

std::string fingerprint_of(const KeyValues& settings) {
    std::string text;
    for (const auto& [name, value] : settings) text += fmt::format("{}\n{}\n", name, value);
    return "trireme-" + hex_digest(text);
}

}  // namespace trireme
