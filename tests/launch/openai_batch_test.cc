// Batch files in OpenAI's form: results of good lines are generate's, and a bad line stops no other one.

#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;

const Json kCompletion = {{"prompt", "In the beginning"}, {"max_tokens", 6}, {"model", "kjv"}};

Json line(const std::string& id, const Json& body, const std::string& url = "/v1/completions") {
    return {{"custom_id", id}, {"method", "POST"}, {"url", url}, {"body", body}};
}

Json with(Json body, const char* key, const Json& value) {
    body[key] = value;
    return body;
}

/// The output's lines, without the times.
std::vector<Json> results_of(const BatchFiles& files) {
    std::vector<Json> all;
    for (const std::string& text : lines_of(read_file(files.output()))) all.push_back(Json::parse(text));
    return all;
}

std::string text_of(const Json& result) {
    return result.at("/response/body/choices/0/text"_json_pointer);
}

std::string generated(const std::string& prompt, const Words& more) {
    const ProcessResult r = trireme(Words{"generate", "-m", model(), "--temp", "0", "-t", "1", "-p", prompt} + more);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
}

TEST(OpenAiBatch, ContinuesACompletion) {
    const BatchFiles files({line("a", kCompletion), line("b", {{"prompt", Json::array({"And God said"})}})});
    const ProcessResult r = trireme(files.command());
    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<Json> all = results_of(files);
    ASSERT_THAT(all, SizeIs(2));
    EXPECT_EQ(text_of(all[0]), generated("In the beginning", {"-n", "6"}));
    EXPECT_EQ(text_of(all[1]), generated("And God said", {"-n", "16"}));  // OpenAI's default
    const Json& body = all[0].at("/response/body"_json_pointer);
    EXPECT_EQ(all[0].at("custom_id"), "a");
    EXPECT_EQ(all[0].at("/response/status_code"_json_pointer), 200);
    EXPECT_TRUE(all[0].at("error").is_null());
    EXPECT_EQ(body.at("object"), "text_completion");
    EXPECT_EQ(body.at("model"), "kjv");
    EXPECT_EQ(body.at("/choices/0/finish_reason"_json_pointer), "length");
    EXPECT_EQ(body.at("/usage/completion_tokens"_json_pointer), 6);
    EXPECT_EQ(body.at("/usage/total_tokens"_json_pointer),
              6 + body.at("/usage/prompt_tokens"_json_pointer).get<int64_t>());
}

TEST(OpenAiBatch, PassesSettingsAndLeavesOutStopStrings) {
    const Json body = {{"prompt", "In the beginning"},
                       {"max_tokens", 30},
                       {"temperature", 0.8},
                       {"seed", 5},
                       {"top_p", 0.9},
                       {"stop", {"a"}},
                       {"n", 1},
                       {"logprobs", nullptr},
                       {"stream", false}};
    const BatchFiles files({line("a", body), line("b", with(body, "stop", nullptr))});
    ASSERT_EQ(trireme(files.command()).status, 0);
    const std::vector<Json> all = results_of(files);
    const Words flags = {"-n", "30", "--temp", "0.8", "--seed", "5", "--top-p", "0.9"};
    EXPECT_EQ(text_of(all.at(0)), generated("In the beginning", flags + Words{"--stop", "a"}));
    EXPECT_EQ(text_of(all.at(1)), generated("In the beginning", flags));
    EXPECT_EQ(text_of(all.at(0)).find('a'), std::string::npos);
}

TEST(OpenAiBatch, ReportsBadLinesInTheirPlaces) {
    const std::string chat = "/v1/chat/completions";
    const std::vector<Json> lines = {line("n", with(kCompletion, "n", 2)),
                                     line("good", kCompletion),
                                     line("no prompt", {{"max_tokens", 3}}),
                                     line("two", {{"prompt", {"a", "b"}}}),
                                     line("ids", {{"prompt", {1, 2, 999999}}}),
                                     line("temperature", with(kCompletion, "temperature", -1)),
                                     line("good ids", {{"prompt", {1, 2, 3}}, {"max_tokens", 2}}),
                                     line("none", with(kCompletion, "max_tokens", 0)),
                                     line("chat", {{"messages", {{{"role", "user"}, {"content", "x"}}}}}, chat),
                                     line("no messages", Json::object(), chat),
                                     line("role", {{"messages", {{{"role", 5}, {"content", "x"}}}}}, chat),
                                     line("unknown", with(kCompletion, "repetition_penalty", 1.1)),
                                     line("choice", with(kCompletion, "tool_choice", "required")),
                                     line("long", with(kCompletion, "prompt", std::string(30000, 'x')))};
    const BatchFiles files(lines);
    const ProcessResult r = trireme(files.command());
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("12 of 14 requests were not run: their result lines have the errors"));
    const std::vector<Json> all = results_of(files);
    ASSERT_THAT(all, SizeIs(lines.size()));
    const std::map<std::string, std::string> reasons = {{"n", "in.jsonl:1: n is 2, want 1"},
                                                        {"no prompt", "in.jsonl:3: a completion has no prompt"},
                                                        {"two", "prompt is a list of several"},
                                                        {"ids", "999999"},
                                                        {"temperature", "temperature"},
                                                        {"none", "max_tokens is 0"},
                                                        {"chat", "has no chat template"},
                                                        {"no messages", "no messages"},
                                                        {"role", "without a role"},
                                                        {"unknown", "batch does not support repetition_penalty"},
                                                        {"choice", "tool_choice is"},
                                                        {"long", "context"}};
    for (size_t i = 0; i < all.size(); ++i) {
        const std::string id = all[i].at("custom_id");
        EXPECT_EQ(id, lines[i].at("custom_id"));
        if (!reasons.contains(id)) {
            EXPECT_EQ(all[i].at("/response/status_code"_json_pointer), 200) << id;
            continue;
        }
        EXPECT_EQ(all[i].at("/response/status_code"_json_pointer), 400) << id;
        EXPECT_TRUE(all[i].at("/response/body"_json_pointer).is_null()) << id;
        EXPECT_THAT(all[i].at("/error/error/message"_json_pointer).get<std::string>(), HasSubstr(reasons.at(id)));
        EXPECT_EQ(all[i].at("/error/error/code"_json_pointer), 400) << id;
    }
}

// A file that is not of the form at all is refused before the model is loaded.
TEST(OpenAiBatch, RefusesAFileThatDoesNotParse) {
    const auto error = [](const std::string& text) {
        const BatchFiles files(std::vector<Json>{});
        write_file(files.input(), line("a", kCompletion).dump() + "\n" + text + "\n");
        const ProcessResult r = trireme(files.command());
        EXPECT_FALSE(std::filesystem::exists(files.output()));
        return fmt::format("{} {}", r.status, r.err);
    };
    EXPECT_THAT(error("{\"custom_id\": 1"), HasSubstr("in.jsonl:2"));
    EXPECT_THAT(error(R"({"custom_id": 1, "url": "/v1/completions", "body": {}})"), HasSubstr("custom_id is number"));
    EXPECT_THAT(error(R"({"custom_id": "a", "url": "/v1/embeddings", "body": {}})"), HasSubstr("/v1/embeddings"));
    EXPECT_THAT(error(R"({"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}})"),
                HasSubstr("method is GET"));
}

TEST(OpenAiBatch, ContinuesAfterWhatIsDone) {
    const std::vector<Json> lines = {line("a", kCompletion), line("b", with(kCompletion, "n", 3)),
                                     line("c", with(kCompletion, "prompt", "And")), line("d", {{"prompt", nullptr}})};
    const BatchFiles whole(lines), cut(lines), other(lines);
    ASSERT_EQ(trireme(whole.command()).status, 0);
    ASSERT_EQ(trireme(cut.command({"--limit", "1"})).status, 0);
    EXPECT_THAT(results_of(cut), SizeIs(1));
    ASSERT_EQ(trireme(cut.command({"--limit", "2"})).status, 0);
    EXPECT_THAT(results_of(cut), SizeIs(2));
    ASSERT_EQ(trireme(cut.command()).status, 0);
    std::vector<Json> a = results_of(whole), b = results_of(cut);
    for (auto* all : {&a, &b}) {
        for (Json& one : *all) {
            if (!one.at("/response/body"_json_pointer).is_null()) one["response"]["body"].erase("created");
        }
    }
    for (size_t i = 0; i < a.size(); ++i) {  // the files' names differ
        if (a[i].at("error").is_null()) {
            EXPECT_EQ(a[i], b.at(i));
        }
    }
    EXPECT_THAT(trireme(cut.command({"--temp", "0.5"})).err, HasSubstr("was made with other settings"));
    // Also if nothing but a bad line is there.
    const BatchFiles bad({line("b", with(kCompletion, "n", 3)), line("c", kCompletion)});
    ASSERT_EQ(trireme(bad.command({"--limit", "1"})).status, 0);
    EXPECT_THAT(trireme(bad.command({"--temp", "0.5"})).err, HasSubstr("was made with other settings"));
    write_file(cut.input(), as_lines({line("a", with(kCompletion, "prompt", "another"))}));
    EXPECT_THAT(trireme(cut.command()).err, HasSubstr("is not the result of"));
}

TEST(OpenAiBatch, DecodesLinesSideBySideOnSeveralRanks) {
    std::vector<Json> lines;
    for (int i = 0; i < 5; ++i) lines.push_back(line(std::to_string(i), with(kCompletion, "max_tokens", 3 + i)));
    lines[2]["body"]["best_of"] = 2;
    const BatchFiles alone(lines), together(lines);
    ASSERT_EQ(trireme(alone.command()).status, 0);
    ASSERT_EQ(trireme_on(2, together.command({"-np", "3"})).status, 0);
    for (size_t i = 0; i < lines.size(); ++i) {
        const Json a = results_of(alone).at(i), b = results_of(together).at(i);
        EXPECT_EQ(a.at("custom_id"), b.at("custom_id"));
        if (i != 2) {
            EXPECT_EQ(text_of(a), text_of(b));
        }
        EXPECT_EQ(a.at("/response/status_code"_json_pointer), i == 2 ? 400 : 200);
    }
}

}  // namespace
}  // namespace trireme::test
