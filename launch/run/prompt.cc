#include "launch/run/prompt.h"

#include "launch/flags/flags.h"
#include "launch/flags/text_file.h"
#include "launch/run/chat/chat_renderer.h"
#include "launch/run/once.h"
#include "model/files/json.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr size_t kMostPromptBytes = size_t{256} << 20;  // of a prompt: far beyond any context, far below memory

std::string read_source(const std::string& path, const std::function<void()>& waiting) {
    log::debug("reads the prompt from {}", path == "-" ? "stdin" : path);
    return read_text_file_or_stdin(path, kMostPromptBytes, waiting);
}

}  // namespace

std::string read_document(const Options& o, const std::function<void()>& waiting) {
    return read_source(o.prompt, waiting);
}

std::string read_prompt_text(const Options& o, const std::function<void()>& waiting) {
    std::string text = o.prompt_from == PromptFrom::kText ? o.prompt : read_source(o.prompt, waiting);
    if (!o.chat) {
        warn_of_system(o);
        return text;
    }
    return ChatRenderer(o.tokenizer_path()).prompt_of({ChatRenderer::messages_of(o.system, text)}, "the prompt");
}

void warn_of_system(const Options& o) {
    if (!o.chat && !o.system.empty()) log::warn("--system has no effect: only --chat has a system message");
}

bool adds_special(const Options& o, bool added) {
    return !o.chat && o.add_special.value_or(added);
}

std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
    if (const LeftOut out = tokenizer.left_out(text); out.bytes > 0) {
        log::warn(
            "{} byte{} of the prompt {} left out: this tokenizer has no token for {}; the first is {:#04x} at offset "
            "{}",
            out.bytes, out.bytes == 1 ? "" : "s", out.bytes == 1 ? "is" : "are", out.bytes == 1 ? "it" : "them",
            out.first, out.offset);
    }
    std::vector<int32_t> ids = tokenizer.encode(text, add_special);
    const int32_t bos = tokenizer.bos();
    if (add_special && bos >= 0 && ids.size() >= 2 && ids[0] == bos && ids[1] == bos && first_time("two BOS")) {
        log::warn(
            "a text begins with {}, and the tokenizer puts another one before it; leave it out of the text, or use "
            "--no-bos",
            shown(tokenizer.piece(bos)));
    }
    return ids;
}

std::vector<int64_t> parse_ids(std::string_view text, std::string_view what) {
    const Json json = parse_json(text, what, {.depth = 2, .bytes = kMostPromptBytes});
    require(json.is_array(), Exit::kData, "{}: holds {}, want an array of token ids", what, json.type_name());
    std::vector<int64_t> ids;
    ids.reserve(json.size());
    for (const Json& id : json) {
        require(id.is_number_integer(), Exit::kData, "{}: element {} is {}, want a token id: a whole number", what,
                ids.size(), id.is_number() ? id.dump() : id.type_name());
        // A number beyond int64 is beyond every vocabulary.
        const bool huge = id.is_number_unsigned() && id.get<uint64_t>() > uint64_t{INT64_MAX};
        ids.push_back(huge ? INT64_MAX : id.get<int64_t>());
    }
    return ids;
}

std::vector<int32_t> checked_ids(const std::vector<int64_t>& ids, int64_t vocab, int64_t context, Command command,
                                 std::string_view what) {
    const auto n = static_cast<int64_t>(ids.size());
    const bool scored = command == Command::kScore;
    require(n >= (scored ? 2 : 1), Exit::kConfig, "{} has {} tokens; {} requires at least {}", what, n,
            name_of(command), scored ? 2 : 1);
    std::vector<int32_t> checked;
    checked.reserve(ids.size());
    for (const int64_t id : ids) {
        require(id >= 0 && id < vocab, Exit::kConfig, "{}'s id {} at index {} is outside the vocabulary: want 0 to {}",
                what, id, checked.size(), vocab - 1);
        checked.push_back(static_cast<int32_t>(id));
    }
    // A continuation needs room for at least one token.
    require(n + (scored ? 0 : 1) <= context, Exit::kConfig,
            "{} has {} tokens and the context {}{}: shorten it or raise -c", what, n, context,
            scored ? "" : ", which leaves no room for a continuation");
    return checked;
}

Prompt read_prompt(const Options& o, const Tokenizer* tokenizer, const std::function<void()>& waiting) {
    if (o.prompt_from == PromptFrom::kIds) {
        const std::string text = read_text_file_or_stdin(o.prompt, kMostPromptBytes, waiting);
        return {.text = {}, .ids = parse_ids(text, o.prompt == "-" ? "stdin" : o.prompt)};
    }
    Prompt prompt = {.text = read_prompt_text(o, waiting), .ids = {}};
    const std::vector<int32_t> ids = encode_prompt(*tokenizer, prompt.text, adds_special(o, true));
    prompt.ids.assign(ids.begin(), ids.end());
    return prompt;
}

}  // namespace trireme
