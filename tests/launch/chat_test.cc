// Chat templates: texts are those of transformers (tests/reference/chat_templates.py), and a template that fails, loops
// or reaches for code gives one error.

#include <chrono>
#include <ctime>
#include <map>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launch/commands/session_turns.h"
#include "launch/run/chat/chat_renderer.h"
#include "tests/launch/batch_files.h"
#include "tests/support/refusal.h"

namespace trireme::test {
namespace {

using Ordered = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

/// A model folder's files of the tokenizer.
class TemplateFolder {
  public:
    explicit TemplateFolder(const Ordered& config) { write_file(folder_ / "tokenizer_config.json", config.dump()); }
    TemplateFolder(const std::string& source, const Ordered& variables)
        : TemplateFolder([&] {
              Ordered config = variables;
              config["chat_template"] = source;
              return config;
          }()) {}
    const std::string& path() const { return folder_.path(); }
    void write(const std::string& name, const std::string& text) const { write_file(folder_ / name, text); }

    ChatRenderer renderer(std::chrono::milliseconds most = ChatRenderer::kMostTime) const {
        return ChatRenderer(path(), most);
    }

  private:
    TempFolder folder_;
};

const Ordered kHello = ChatRenderer::messages_of("", "Hello");
const std::string kRoles =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

const std::string kLoop = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";

TEST(ChatTemplate, GivesTheTextsOfTransformers) {
    const Ordered golden = Ordered::parse(read_file(data("chat/goldens.json")));
    int64_t texts = 0, errors = 0;
    for (const Ordered& t : golden.at("templates")) {
        const TemplateFolder folder(t.at("template"), golden.at("variables"));
        ChatRenderer renderer = folder.renderer();
        const bool uses_tools = t.at("template").get<std::string>().find("tools") != std::string::npos;
        for (size_t c = 0; c < golden.at("conversations").size(); ++c) {
            const Ordered& conversation = golden.at("conversations")[c];
            const bool tools = conversation.contains("tools");
            std::string text;
            const std::string refused = refusal([&] {
                text = renderer.prompt_of({conversation.at("messages"), tools ? conversation.at("tools") : Ordered()},
                                          "here");
            });
            const Ordered& expected = t.at("results")[c];
            if (tools && !uses_tools) {
                EXPECT_THAT(refused, HasSubstr("has tools, and the chat template")) << t.at("name");
            } else if (expected.contains("text")) {
                EXPECT_EQ(refused, "accepted") << t.at("name") << " " << c;
                EXPECT_EQ(text, expected.at("text")) << t.at("name") << " " << c;
                ++texts;
            } else {
                EXPECT_THAT(refused, StartsWith("65 here: the chat template of " + folder.path())) << t.at("name");
                ++errors;
            }
        }
    }
    EXPECT_GT(texts, 120);
    EXPECT_GT(errors, 60);
}

TEST(ChatTemplate, SaysWhyATemplateFails) {
    const auto why = [](const std::string& source) {
        const TemplateFolder folder(source, {});
        ChatRenderer renderer = folder.renderer(std::chrono::milliseconds(500));
        return refusal([&] { renderer.prompt_of({kHello}, "turn 1"); });
    };
    EXPECT_THAT(why("{{ raise_exception('no\nsystem \x1b[31m') }}"), HasSubstr("fails: no system \\x1b[31m"));
    EXPECT_THAT(why("{% for x %}"), HasSubstr("(line 1 of the template)"));
    EXPECT_THAT(why("{% for i in range(10 ** 9) %}{% endfor %}"), HasSubstr("Range too big"));
    EXPECT_THAT(why("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}"), HasSubstr("RecursionError"));
    EXPECT_THAT(why("{{ 'x' * (2 ** 32) }}"), HasSubstr("MemoryError"));
    EXPECT_THAT(why(kLoop), HasSubstr("did not end within 0.5 s"));
    EXPECT_THAT(why("{{ 10 ** 100000000 }}"), HasSubstr("did not end within 0.5 s"));  // when it is compiled
    EXPECT_THAT(why("{{ '\\ud800' }}"), HasSubstr("UnicodeEncodeError"));
}

// After a template that was killed, the next conversation is rendered by a new process.
TEST(ChatTemplate, RendersAfterATimeout) {
    const TemplateFolder folder("{% if messages[0].content == 'loop' %}" + kLoop + "{% endif %}done", {});
    ChatRenderer renderer = folder.renderer(std::chrono::milliseconds(500));
    EXPECT_THAT(refusal([&] { renderer.prompt_of({ChatRenderer::messages_of("", "loop")}, "x"); }), HasSubstr("0.5 s"));
    EXPECT_EQ(renderer.prompt_of({kHello}, "x"), "done");
}

TEST(ChatTemplate, KeepsLongTextsAndAllOfUnicode) {
    const TemplateFolder folder(kRoles, {});
    ChatRenderer renderer = folder.renderer();
    std::string book;
    while (book.size() < (size_t{3} << 20)) book += "\u00e9 \U0001F600\n\t\"<&>\\";
    EXPECT_EQ(renderer.prompt_of({ChatRenderer::messages_of("sys", book)}, "x"),
              "<system>sys</system><user>" + book + "</user><assistant>");
    EXPECT_THAT(refusal([&] { renderer.prompt_of({ChatRenderer::messages_of("", "\xff")}, "x"); }),
                HasSubstr("65 x: a message is not UTF-8"));
}

TEST(ChatTemplate, KnowsTheDay) {
    const TemplateFolder folder("{{ strftime_now('%Y') }}", {});
    const std::time_t now = std::time(nullptr);
    EXPECT_EQ(folder.renderer().prompt_of({kHello}, "x"), std::to_string(1900 + std::localtime(&now)->tm_year));
}

TEST(ChatTemplate, IsFoundInAllItsPlaces) {
    const std::string bos = "{{ bos_token }}|{{ eos_token }}|{{ pad_token is defined }}";
    const auto text_in = [&](const TemplateFolder& folder) { return folder.renderer().prompt_of({kHello}, "x"); };
    const Ordered content = {{"content", "<b>"}, {"lstrip", false}};
    EXPECT_EQ(text_in({bos, {{"bos_token", content}, {"eos_token", "<e>"}, {"pad_token", nullptr}}}), "<b>|<e>|False");
    EXPECT_EQ(text_in({bos, {{"tokenizer_class", "LlamaTokenizerFast"}}}), "<s>|</s>|False");
    EXPECT_EQ(text_in({bos, {{"tokenizer_class", "LlamaTokenizer"}, {"bos_token", nullptr}}}), "|</s>|False");
    {
        const TemplateFolder folder(bos, {{"bos_token", "<b>"}});
        folder.write("special_tokens_map.json", R"({"bos_token": "<other>", "eos_token": "<e>"})");
        EXPECT_EQ(text_in(folder), "<b>|<e>|False");
        folder.write("chat_template.jinja", "file {{ eos_token }}\n");
        EXPECT_EQ(text_in(folder), "file <e>");
    }
    const Ordered named = {{"chat_template",
                            {{{"name", "tool_use"}, {"template", "{{ tools | length }} tools"}},
                             {{"name", "default"}, {"template", "default"}}}}};
    const TemplateFolder folder(named);
    EXPECT_EQ(text_in(folder), "default");
    EXPECT_EQ(folder.renderer().prompt_of({kHello, Ordered::array({{{"type", "function"}}})}, "x"), "1 tools");
}

TEST(ChatTemplate, RefusesWhatIsNoTemplateAndNoConversation) {
    const auto refused = [](const Ordered& config, const Ordered& messages) {
        const TemplateFolder folder(config);
        return refusal([&] { folder.renderer().prompt_of({messages}, "line 3"); });
    };
    EXPECT_THAT(refused(Ordered::object(), kHello), MatchesRegex("78 .* has no chat template .*without --chat"));
    EXPECT_THAT(refused({{"chat_template", 7}}, kHello), MatchesRegex("65 .*chat_template is number.*"));
    EXPECT_THAT(refused({{"chat_template", Ordered::array()}}, kHello), HasSubstr("has no chat template"));
    EXPECT_THAT(refused({{"chat_template", {{{"name", 1}}, 5, {{"name", "default"}}}}}, kHello),
                HasSubstr("has no chat template"));
    const Ordered good = {{"chat_template", "x"}};
    EXPECT_THAT(refused(good, Ordered::array()), HasSubstr("65 line 3: messages are an empty list"));
    EXPECT_THAT(refused(good, "text"), HasSubstr("65 line 3: messages are string"));
    EXPECT_THAT(refused(good, {"text"}), HasSubstr("65 line 3: a message is string"));
    EXPECT_THAT(refused(good, {{{"content", "x"}}}), HasSubstr("an object without a role"));
}

TEST(ChatTurns, AddTheEndOfTheAnswerAndTheNextQuestion) {
    const TemplateFolder folder(kRoles, {});
    ChatRenderer renderer = folder.renderer();
    ChatTurns turns(renderer, "be brief");
    EXPECT_EQ(turns.text_of("one", "x"), "<system>be brief</system><user>one</user><assistant>");
    EXPECT_EQ(turns.text_of("two", "x"), "</assistant><user>two</user><assistant>");
    EXPECT_EQ(turns.text_of("three", "x"), "</assistant><user>three</user><assistant>");
    const TemplateFolder forgets("{{ messages[-1].content }}", {});
    ChatRenderer last = forgets.renderer();
    ChatTurns omitted(last, "");
    omitted.text_of("one", "x");
    EXPECT_THAT(refusal([&] { omitted.text_of("two", "line 2"); }), HasSubstr("65 line 2: the chat template omits"));
    // A message may have any words, and one that has an error changes nothing.
    const TemplateFolder fails("{% if messages[-1].content == 'bad' %}{{ raise_exception('no') }}{% endif %}" + kRoles,
                               {});
    ChatRenderer refuses = fails.renderer();
    ChatTurns kept(refuses, "");
    kept.text_of("TriremeAnswer0", "x");
    EXPECT_THAT(refusal([&] { kept.text_of("bad", "x"); }), HasSubstr("fails: no"));
    EXPECT_EQ(kept.text_of("TriremeAnswer0 n0", "x"), "</assistant><user>TriremeAnswer0 n0</user><assistant>");
}

/// The small model with a chat template.
class ChatRun : public testing::Test {
  protected:
    ChatRun() {
        for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
            std::filesystem::copy_file(model() + "/" + name, folder / name);
        }
        write_file(folder / "tokenizer_config.json", Ordered{{"chat_template", kSource}, {"bos_token", "<s>"}}.dump());
    }
    Words generate(const Words& more) const {
        return Words{"generate", "-m", folder.path(), "--temp", "0", "-t", "1", "--ignore-eos"} + more;
    }
    static constexpr const char* kSource =
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant]";
    TempFolder folder;
};

TEST_F(ChatRun, ContinuesTheTemplatesText) {
    const std::string text = "<s>[system] short\n[user] In the beginning\n[assistant]";
    const ProcessResult plain = trireme(generate({"-p", text, "--no-bos", "-n", "8"}));
    EXPECT_EQ(plain.status, 0) << plain.err;
    const Words chat = {"--chat", "--system", "short", "-p", "In the beginning"};
    EXPECT_EQ(trireme(generate(chat + Words{"-n", "8"})).out, plain.out);
    EXPECT_EQ(trireme(generate(chat + Words{"-n", "0", "--print", "prompt"})).out, text);
    EXPECT_EQ(trireme(generate(chat + Words{"-n", "8", "--print", "prompt"})).out, text + plain.out);
    EXPECT_EQ(trireme_on(2, generate(chat + Words{"-n", "8"})).out, plain.out);
    EXPECT_EQ(trireme(Words{"tokenize", "-m", folder.path()} + chat).out,
              trireme({"tokenize", "-m", folder.path(), "-p", text}).out);
}

TEST_F(ChatRun, AnswersTurnsOfASession) {
    write_file(folder / "turns.jsonl", "{\"prompt\": \"one\"}\n{\"turns\": [\"two\"]}\n");
    const ProcessResult r = trireme(generate({"--session", folder / "turns.jsonl", "--chat", "-n", "5"}));
    EXPECT_EQ(r.status, 0) << r.err;
    const std::string first = trireme(generate({"-p", "<s>[user] one\n[assistant]", "--no-bos", "-n", "5"})).out;
    EXPECT_THAT(r.out, HasSubstr(first));
    const ProcessResult second = trireme(
        generate({"-p", "<s>[user] one\n[assistant]" + first + "\n[user] two\n[assistant]", "--no-bos", "-n", "5"}));
    EXPECT_THAT(r.out, HasSubstr(second.out));
}

TEST_F(ChatRun, AnswersMessagesOfABatch) {
    const Ordered line = {{"messages", {{{"role", "user"}, {"content", "In the beginning"}}}}, {"max_tokens", 6}};
    write_file(folder / "in.jsonl", line.dump() + "\n" + R"({"prompt": "In the beginning", "max_tokens": 6})" + "\n");
    const auto run = [&](const Words& more) {
        const Words words = {
            "batch", "-m", folder.path(), "--input", folder / "in.jsonl", "-o",     folder / "out.jsonl",
            "-t",    "1",  "--temp",      "0",       "--ignore-eos",      "--force"};
        const ProcessResult r = trireme(words + more);
        EXPECT_EQ(r.status, 0) << r.err;
        Words texts;
        for (const std::string& out : lines_of(read_file(folder / "out.jsonl"))) {
            texts.push_back(Ordered::parse(out).at("/result/choices/0/text"_json_pointer));
        }
        return texts;
    };
    const std::string chat = trireme(generate({"--chat", "-p", "In the beginning", "-n", "6"})).out;
    const std::string plain = trireme(generate({"-p", "In the beginning", "-n", "6"})).out;
    EXPECT_EQ(run({}), (Words{chat, plain}));
    EXPECT_EQ(run({"--chat"}), (Words{chat, chat}));
    const std::string terse = trireme(generate({"--chat", "--system", "x", "-p", "In the beginning", "-n", "6"})).out;
    EXPECT_EQ(run({"--system", "x"}), (Words{terse, plain}));
}

TEST_F(ChatRun, SaysWhatIsMissing) {
    const auto error = [&](const Words& words, const std::string& python = "") {
        Words environment;
        if (!python.empty()) environment.push_back("TRIREME_PYTHON=" + python);
        const ProcessResult r = trireme_process(words, {.environment = environment});
        const Words errors = error_lines(r);
        return fmt::format("{} {}", r.status, errors.size() == 1 ? errors[0] : r.err);
    };
    const Words chat = generate({"--chat", "-p", "x", "-n", "1"});
    EXPECT_THAT(error(chat, "/no/python"), MatchesRegex("69 .*/no/python cannot be started.*"));
    write_file(folder / "python", "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'jinja2'\" >&2; exit 1\n");
    std::filesystem::permissions(folder / "python", std::filesystem::perms::owner_all);
    EXPECT_THAT(error(chat, folder / "python"), MatchesRegex("69 .*No module named 'jinja2'; install it.*"));
    EXPECT_THAT(error(generate({"--session", "x.jsonl", "--chat", "--print", "prompt"})), StartsWith("64 "));
    EXPECT_THAT(trireme(generate({"--system", "x", "-p", "x", "-n", "1"})).err, HasSubstr("--system has no effect"));
    EXPECT_THAT(error(generate({"-n", "0", "-p", "x"})), HasSubstr("78 trireme: error: -n 0"));
    EXPECT_THAT(error(generate({"--chat", "--add-special", "-p", "x"})), StartsWith("64 "));
    EXPECT_THAT(error({"generate", "-m", model(), "--chat", "-p", "x"}), HasSubstr("has no chat template"));
}

}  // namespace
}  // namespace trireme::test
