// `trireme batch`, as a process: each line is what generate returns for its request.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/evicting/policies.h"
#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;
using testing::StartsWith;

/// The text that generate returns for the request's prompt.
std::string generated(const Json& request, const Words& more = {}) {
    Words words = {"generate", "-m", model(), "--temp", "0", "-t", "1", "-p", request.at("prompt")};
    if (request.contains("max_tokens")) words.insert(words.end(), {"-n", request.at("max_tokens").dump()});
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult r = trireme(words);
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
}

std::vector<std::string> all_generated(const std::vector<Json>& requests, const Words& more = {}) {
    std::vector<std::string> all;
    for (const Json& r : requests) all.push_back(generated(r, more));
    return all;
}

void expect_batch_is_generate(const std::vector<Json>& requests, const Words& flags) {
    const BatchFiles files(requests);
    const ProcessResult r = trireme(files.command(flags));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(files.texts(), all_generated(requests, flags)) << testing::PrintToString(flags);
}

TEST(BatchCommand, ContinuesEachLineAsGenerateDoes) {
    const std::vector<Json> all = requests(5);
    const BatchFiles files(all);

    const ProcessResult r = trireme(files.command());

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_EQ(files.texts(), all_generated(all));
    const std::vector<Json> lines = files.results();
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(lines[i].at("index"), i);
        EXPECT_EQ(lines[i].at("request"), all[i]);
        EXPECT_EQ(lines[i].at("/result/choices/0/finish_reason"_json_pointer), "length");
        EXPECT_EQ(lines[i].at("/result/completion_tokens"_json_pointer), all[i].at("max_tokens"));
    }
    EXPECT_THAT(r.err, HasSubstr("request 5 of 5: "));
}

TEST(BatchCommand, ContinuesUnderEveryWayToDecode) {
    expect_batch_is_generate(requests(4), {"--spec", "ngram", "--gamma", "4"});
    expect_batch_is_generate(requests(4), {"--spec", "retrieval", "--gamma", "3"});
    expect_batch_is_generate(requests(3), {"--spec", "window"});  // adaptive draft lengths
    expect_batch_is_generate(requests(3), {"--kv-on-chip", "0"});
    expect_batch_is_generate(requests(3), {"--no-bos", "--temp", "0.8", "--seed", "5", "--top-k", "20"});
}

TEST(BatchCommand, ContinuesUnderEveryPolicy) {
    for (const KvPolicy policy : evicting_policies()) {
        Words flags = {"--kv-policy", std::string(name_of(policy)), "--kv-window", "12"};
        if (row_of(policy).queries == QueriesBy::kObserved) {
            flags.insert(flags.end(), {"--kv-observe", "4", "--kv-pool", "3", "--kv-every", "4"});
        }
        expect_batch_is_generate(requests(4), flags);
    }
}

// The seed decides which tokens the random policy retains.
TEST(BatchCommand, TakesALinesSeedForTheRandomPolicy) {
    std::vector<Json> all = requests(3);
    std::vector<std::string> want;
    const Words random = {"--kv-policy", "random", "--kv-window", "12"};
    for (size_t i = 0; i < all.size(); ++i) {
        Words flags = random;
        flags.insert(flags.end(), {"--seed", std::to_string(i)});
        want.push_back(generated(all[i], flags));
        all[i]["seed"] = i;
    }
    const BatchFiles files(all);

    EXPECT_EQ(trireme(files.command(random)).status, 0);

    EXPECT_EQ(files.texts(), want);
}

// The budget of each request is a share of its own prompt.
TEST(BatchCommand, TakesAWindowThatIsAShareOfThePrompt) {
    expect_batch_is_generate(requests(5), {"--kv-policy", "h2o", "--kv-window", "0.4"});
}

// Requests of any length share forwards: each has the text that it has alone.
TEST(BatchCommand, ContinuesRequestsSideBySide) {
    for (const char* parallel : {"2", "3", "100", "auto"}) {
        expect_batch_is_generate(requests(7), {"--parallel", parallel});
    }
    expect_batch_is_generate(requests(7), {"-np", "3", "--kv-on-chip", "0"});
    expect_batch_is_generate(requests(7), {"-np", "3", "--kv-on-chip", "3", "--link-gbps", "0.5"});
    expect_batch_is_generate(requests(5), {"-np", "4", "--temp", "0.8", "--seed", "5", "--stop", "and"});
}

TEST(BatchCommand, TakesWhatALineSaysSideBySide) {
    std::vector<Json> all = requests(8);
    for (size_t i = 0; i < all.size(); ++i) {
        all[i]["max_tokens"] = i == 3 ? 1 : 5 + 7 * (i % 3);
        all[i]["temperature"] = static_cast<double>(i % 3) * 0.5;
        all[i]["seed"] = i / 2;
        if (i % 4 == 1) all[i]["stop"] = " the";
        if (i == 6) all[i]["top_k"] = 3;
    }
    const BatchFiles one(all), several(all), ranks(all);
    const Words f32 = {"--dtype", "f32", "-ctk", "f32", "-ctv", "f32"};

    const ProcessResult first = trireme(one.command(f32));
    EXPECT_EQ(first.status, 0) << first.err;
    Words words = f32;
    words.insert(words.end(), {"-np", "3"});
    const ProcessResult second = trireme(several.command(words));
    EXPECT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(several.results(), one.results());
    EXPECT_EQ(trireme_on(2, ranks.command(words)).status, 0);
    EXPECT_EQ(ranks.results(), one.results());
}

// The output of a run that ends early is a prefix of the output of a complete run, whichever request finished first.
TEST(BatchCommand, ContinuesAfterParallelRequests) {
    std::vector<Json> all = requests(6);
    all[0]["max_tokens"] = 400;  // the others wait for it
    all[0]["stop"] = Json::array();
    const BatchFiles whole(all), cut(all);
    ASSERT_EQ(trireme(whole.command({"-np", "4", "--ignore-eos"})).status, 0);

    const ProcessResult part = trireme(cut.command({"-np", "4", "--ignore-eos", "--limit", "3"}));
    EXPECT_EQ(part.status, 0) << part.err;
    EXPECT_THAT(cut.results(), SizeIs(3));
    const ProcessResult rest = trireme(cut.command({"-np", "2", "--ignore-eos"}));
    EXPECT_EQ(rest.status, 0) << rest.err;
    EXPECT_EQ(cut.results(), whole.results());
}

TEST(BatchCommand, TakesOneNumberOfParallelRequests) {
    const BatchFiles files(requests(2));
    const ProcessResult several = trireme(files.command({"-np", "2,4"}));
    EXPECT_EQ(several.status, 78) << several.err;
    EXPECT_THAT(error_lines(several), SizeIs(1)) << several.err;
    EXPECT_THAT(files.folder().names(), ElementsAre("in.jsonl"));
}

TEST(BatchCommand, TakesWhatALineSaysInsteadOfTheFlags) {
    const std::string prompt = "And God said unto";
    const Json plain = {{"prompt", prompt}};
    const std::vector<Json> all = {
        plain,
        {{"article", prompt}, {"max_tokens", 3}, {"summary_gt", "x"}, {"n", 1}, {"logprobs", 1}},
        {{"prompt", prompt}, {"temperature", 0.9}, {"top_p", 0.95}, {"top_k", 30}, {"min_p", 0.2}, {"seed", 7}},
        {{"prompt", prompt}, {"stop", {"###", " "}}},
        {{"prompt", prompt}, {"stop", " "}, {"temperature", nullptr}},
        {{"input_ids", {1, 5, 9}}, {"max_tokens", 2}}};
    const BatchFiles files(all);

    const ProcessResult r = trireme(files.command({"-n", "9", "--stop", "zz"}));

    EXPECT_EQ(r.status, 0) << r.err;
    const std::vector<std::string> texts = files.texts();
    ASSERT_THAT(texts, SizeIs(all.size()));
    EXPECT_EQ(texts[0], generated(plain, {"-n", "9"}));
    EXPECT_EQ(texts[1], generated(plain, {"-n", "3"}));
    EXPECT_EQ(texts[2], generated(plain, {"-n", "9", "--temp", "0.9", "--top-p", "0.95", "--top-k", "30", "--min-p",
                                          "0.2", "--seed", "7"}));
    EXPECT_EQ(texts[3], generated(plain, {"-n", "9", "--stop", " "}));
    EXPECT_EQ(texts[4], texts[3]);
    const std::vector<Json> lines = files.results();
    EXPECT_EQ(lines[3].at("/result/choices/0/finish_reason"_json_pointer), "stop");
    EXPECT_EQ(lines[5].at("/result/prompt_tokens"_json_pointer), 3);
    EXPECT_EQ(lines[5].at("/result/completion_tokens"_json_pointer), 2);
    EXPECT_EQ(lines[1].at("request"), all[1]);
}

TEST(BatchCommand, RefusesLinesThatAreNoRequests) {
    const auto refused = [](const std::string& line) {
        const BatchFiles files({});
        write_file(files.input(), "{\"prompt\": \"a\"}\n\n" + line + "\n");
        const ProcessResult r = trireme(files.command({"-n", "2"}));
        EXPECT_THAT(files.folder().names(), ElementsAre("in.jsonl")) << line;
        const Words errors = error_lines(r);
        EXPECT_THAT(errors, SizeIs(1)) << r.err;
        return std::to_string(r.status) + (errors.empty() ? "" : errors[0].substr(errors[0].rfind('/')));
    };
    EXPECT_THAT(refused("{}"), MatchesRegex("65/in.jsonl:3: .*prompt .*input_ids .*article"));
    EXPECT_THAT(refused("[1]"),
                MatchesRegex("65/in.jsonl:3: .*array, .*object .*prompt, messages, input_ids .*article.*"));
    EXPECT_THAT(refused("{\"prompt\": \"a\""), HasSubstr("65/in.jsonl:3"));
    EXPECT_THAT(refused("{\"prompt\": 3}"), StartsWith("65/in.jsonl:3: prompt is number"));
    EXPECT_THAT(refused("{\"input_ids\": \"a\"}"), StartsWith("65/in.jsonl:3: input_ids is string"));
    EXPECT_THAT(refused("{\"input_ids\": [1, 99999]}"), HasSubstr("78/in.jsonl:3: input_ids's id 99999 at index 1 "));
    EXPECT_THAT(refused("{\"input_ids\": []}"), HasSubstr("78/in.jsonl:3: input_ids has 0 tokens"));
    EXPECT_THAT(refused("{\"prompt\": \"a\", \"top_p\": 1.5}"), HasSubstr("78/in.jsonl:3: top_p '1.5'"));
    EXPECT_THAT(refused("{\"prompt\": \"a\", \"temperature\": \"hot\"}"),
                StartsWith("65/in.jsonl:3: temperature is string"));
    EXPECT_THAT(refused("{\"prompt\": \"a\", \"max_tokens\": 1.5}"), HasSubstr("78/in.jsonl:3: max_tokens '1.5'"));
    EXPECT_THAT(refused("{\"prompt\": \"a\", \"seed\": -2}"), HasSubstr("78/in.jsonl:3: seed '-2'"));
    EXPECT_THAT(refused("{\"prompt\": \"a\", \"stop\": [\"\"]}"), MatchesRegex("65/in.jsonl:3: stop .*empty.*"));
}

TEST(BatchCommand, RefusesFilesThatCannotServe) {
    const BatchFiles files(requests(2));
    const auto status = [](const Words& words) {
        const ProcessResult r = trireme(words);
        EXPECT_THAT(error_lines(r), SizeIs(1)) << r.err;
        return r.status;
    };
    EXPECT_EQ(status({"batch", "-m", model(), "--input", files.input()}), 64);
    EXPECT_EQ(status({"batch", "-m", model(), "-o", files.output()}), 64);
    EXPECT_EQ(status({"batch", "-m", model(), "--input", files.input(), "-o", files.input()}), 64);
    EXPECT_EQ(status({"batch", "-m", model(), "--input", files.folder() / "none", "-o", files.output()}), 66);
    EXPECT_EQ(status({"batch", "-m", model(), "--input", files.input(), "-o", files.folder() / "none/out"}), 73);
    EXPECT_EQ(status({"batch", "-m", model(), "--input", files.input(), "-o", files.folder().path()}), 73);
    write_file(files.input(), "\n \n");
    EXPECT_EQ(status(files.command()), 66);
}

// Identical texts require f32: two ranks add in another order than one.
TEST(BatchCommand, HasTheSameTextsOnTwoRanks) {
    const std::vector<Json> all = requests(4);
    const Words f32 = {"--dtype", "f32", "-ctk", "f32", "-ctv", "f32"};
    const BatchFiles files(all);

    const ProcessResult r = trireme_on(2, files.command(f32));

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(files.texts(), all_generated(all, f32));
    const ProcessResult again = trireme_on(2, files.command(f32));
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_THAT(files.results(), SizeIs(4));

    write_file(files.input(), "{}\n");
    const ProcessResult bad = trireme_on(2, files.command());
    EXPECT_EQ(bad.status, 65) << bad.err;
    EXPECT_THAT(error_lines(bad), SizeIs(1)) << bad.err;
}

TEST(BatchCommand, ComparesTextsWithTheirReferences) {
    std::vector<Json> all = requests(3);
    {
        const BatchFiles files(all);
        ASSERT_EQ(trireme(files.command()).status, 0);
        const std::vector<std::string> texts = files.texts();
        all[0]["summary_gt"] = texts[0];
        all[1]["summary_gt"] = "zzz";
        all[2]["summary_gt"] = "nothing";
        all[2]["stop"] = texts[2].substr(0, 1);
    }
    const BatchFiles files(all);
    const ProcessResult part = trireme(files.command({"--limit", "1"}));  // without the flag: compared afterwards
    EXPECT_EQ(part.status, 0) << part.err;

    const ProcessResult r = trireme(files.command({"--rouge", "summary_gt"}));

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("3 texts: Rouge-1 0.333333, Rouge-2 "));
    EXPECT_THAT(r.err, HasSubstr(", Rouge-l 0.333333 (1 empty)"));
    EXPECT_EQ(files.results()[1].at("/rouge/rouge-1/f"_json_pointer), 0);
    EXPECT_THAT(trireme(files.command({"--rouge", "summary"})).err,
                testing::ContainsRegex("in.jsonl:1: summary [^\n]*--rouge"));
}

TEST(BatchCommand, DrawsASeedForARequest) {
    const std::vector<Json> one = {{{"prompt", "And God said"}, {"max_tokens", 8}, {"seed", -1}}};
    const BatchFiles files(one);
    const ProcessResult r = trireme(files.command({"--temp", "1"}));
    ASSERT_EQ(r.status, 0) << r.err;
    const size_t at = r.err.find("in.jsonl:1: seed ");
    ASSERT_NE(at, std::string::npos) << r.err;
    const size_t begin = at + std::string("in.jsonl:1: seed ").size();
    const std::string seed = r.err.substr(begin, r.err.find(',', begin) - begin);
    EXPECT_EQ(files.texts()[0], trireme({"generate", "-m", model(), "-p", "And God said", "-n", "8", "--temp", "1",
                                         "-t", "1", "--seed", seed})
                                    .out);
}

TEST(BatchCommand, NamesTheRequestWhoseShareIsTooSmall) {
    const std::vector<Json> all = {{{"prompt", std::string(1000, 'a')}, {"max_tokens", 2}},
                                   {{"prompt", "And God said"}, {"max_tokens", 2}}};
    const BatchFiles files(all);
    const ProcessResult r = trireme(files.command({"--kv-policy", "snapkv", "--kv-window", "0.2"}));
    EXPECT_EQ(r.status, 78);
    EXPECT_THAT(error_lines(r),
                ElementsAre(AllOf(HasSubstr("request 2: --kv-window 0.2 is 2 tokens "), HasSubstr("--kv-observe 64"))));
}

}  // namespace
}  // namespace trireme::test
