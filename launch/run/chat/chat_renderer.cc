#include "launch/run/chat/chat_renderer.h"

#include <optional>
#include <utility>

#include "launch/run/python_script.h"
#include "model/files/shown.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using Ordered = nlohmann::ordered_json;

// Python may take seconds to start on a network file system.
constexpr std::chrono::milliseconds kMostStart{60000};

ChatTemplate template_of(const std::filesystem::path& path) {
    std::optional<ChatTemplate> found = read_chat_template(path);
    require(found.has_value(), Exit::kConfig,
            "{}: has no chat template (chat_template.jinja, tokenizer_config.json, or a GGUF file's "
            "tokenizer.chat_template); give a prompt as text, without --chat",
            path.string());
    return *std::move(found);
}

void require_messages(const Ordered& messages, std::string_view where) {
    require(messages.is_array() && !messages.empty(), Exit::kData, "{}: messages are {}, want a list of at least one",
            where, messages.is_array() ? "an empty list" : messages.type_name());
    for (const Ordered& m : messages) {
        require(m.is_object() && m.contains("role") && m.at("role").is_string(), Exit::kData,
                "{}: a message is {}, want an object with a role and content", where,
                m.is_object() ? "an object without a role" : m.type_name());
    }
}

}  // namespace

Ordered ChatRenderer::messages_of(std::string_view system, std::string_view text) {
    Ordered messages = Ordered::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", text}});
    return messages;
}

/// Starts the script, and waits until it answers.
void ChatRenderer::start() {
    script_ = std::make_unique<LineProcess>(python_command("chat/render.py"));
    const LineProcess::Answer answer = script_->ask("{}", kMostStart);
    if (answer.end == LineProcess::End::kAnswered) return;
    script_.reset();
    require(answer.end != LineProcess::End::kTimeout, Exit::kUnavailable,
            "chat templates require Python 3, which has not started within {} s", kMostStart.count() / 1000);
    fail(Exit::kUnavailable,
         "chat templates require Python 3 with jinja2 3.1.6 or later: {}; install it (pip install jinja2), or name a "
         "Python that has it in TRIREME_PYTHON",
         shown(answer.text));
}

/// Sends a request to the script, and returns its answer.
nlohmann::json ChatRenderer::ask(const Ordered& request, std::string_view where) {
    std::string line;
    try {
        line = request.dump(-1, ' ', /*ensure_ascii=*/true);
    } catch (const nlohmann::json::type_error&) {
        fail(Exit::kData, "{}: a message is not UTF-8; a chat template requires text", where);
    }
    const LineProcess::Answer answer = script_->ask(std::move(line), most_);
    if (answer.end == LineProcess::End::kAnswered) {
        nlohmann::json said = nlohmann::json::parse(answer.text, nullptr, /*allow_exceptions=*/false);
        check(said.is_object(), "render.py answered {}", shown(answer.text));
        if (!said.contains("error")) return said;
        fail(Exit::kData, "{}: the chat template of {} fails: {}", where, template_.where,
             shown(said.at("error").get<std::string>()));
    }
    script_.reset();
    used_.clear();
    require(answer.end != LineProcess::End::kTimeout, Exit::kUnavailable,
            "{}: the chat template of {} did not end within {} s", where, template_.where,
            static_cast<double>(most_.count()) * 1e-3);
    fail(Exit::kData, "{}: the chat template of {} crashed Python: {}", where, template_.where, shown(answer.text));
}

void ChatRenderer::use(const std::string& source, std::string_view where) {
    if (!script_) start();
    if (used_ == source) return;
    ask({{"template", source}, {"variables", template_.variables}}, where);
    used_ = source;
}

std::string ChatRenderer::prompt_of(const Conversation& c, std::string_view where) {
    require_messages(c.messages, where);
    if (template_.where.empty()) template_ = template_of(path_);
    const bool has_tools = !c.tools.is_null() && !c.tools.empty();
    const std::string& source = template_.of(has_tools);
    require(!has_tools || source.find("tools") != std::string::npos, Exit::kData,
            "{}: has tools, and the chat template of {} does not use them; leave them out", where, template_.where);
    use(source, where);
    Ordered request = {{"messages", c.messages}, {"add_generation_prompt", true}};
    if (has_tools) request["tools"] = c.tools;
    std::string text = ask(request, where).at("text").get<std::string>();
    log::debug("{}: the prompt after the chat template: {}", where, shown(text));
    return text;
}

}  // namespace trireme
