#include "launch/run/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/refusal.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(ParseIds, TakesAnArrayOfWholeNumbers) {
    EXPECT_THAT(parse_ids("[1, 2,\n3]", "ids"), ElementsAre(1, 2, 3));
    EXPECT_THAT(parse_ids(" [] ", "ids"), ElementsAre());
    EXPECT_THAT(parse_ids("[-5, 18446744073709551615]", "ids"), ElementsAre(-5, INT64_MAX));
}

TEST(ParseIds, RefusesEverythingElse) {
    for (const char* text : {"", "1", "null", "{}", "{\"a\": [1]}", "[1", "[1,]", "[1] 2", "[[1]]", "[1.0]", "[1e3]",
                             "[\"1\"]", "[null]", "[true]", "[NaN]", "[0x10]", "[01]"}) {
        EXPECT_THAT(refusal([&] { parse_ids(text, "ids"); }), HasSubstr("65 ids")) << text;
    }
    EXPECT_THAT(refusal([] { parse_ids("[7, 1.5]", "ids"); }), HasSubstr("65 ids: element 1 is 1.5"));
}

TEST(CheckedIds, HoldsTheBordersOfVocabularyAndContext) {
    const auto generate = [](const std::vector<int64_t>& ids) { return checked_ids(ids, 10, 4, Command::kGenerate); };
    const auto score = [](const std::vector<int64_t>& ids) { return checked_ids(ids, 10, 4, Command::kScore); };

    EXPECT_THAT(generate({0, 9, 5}), ElementsAre(0, 9, 5));
    EXPECT_THAT(score({0, 9, 5, 1}), ElementsAre(0, 9, 5, 1));
    EXPECT_THAT(generate({9}), ElementsAre(9));
    EXPECT_THAT(refusal([&] { generate({0, 1, 10}); }), MatchesRegex("78 the prompt's id 10 at index 2 .* 0 to 9"));
    EXPECT_THAT(refusal([&] { generate({-1}); }), HasSubstr("78 the prompt's id -1 at index 0"));
    EXPECT_THAT(refusal([&] { generate({INT64_MAX}); }), HasSubstr("78 "));
    EXPECT_THAT(refusal([&] { generate({1, 2, 3, 4}); }), MatchesRegex("78 .* 4 tokens .* context 4, .*"));
    EXPECT_THAT(refusal([&] { score({1, 2, 3, 4, 5}); }), MatchesRegex("78 .* 5 tokens .* context 4: .*"));
    EXPECT_THAT(refusal([&] { generate({}); }), HasSubstr("78 the prompt has 0 tokens"));
    EXPECT_THAT(refusal([&] { score({1}); }), MatchesRegex("78 .* 1 tokens; score .* 2.*"));
}

TEST(ReadPrompt, TakesTextAsItStands) {
    const TempFolder folder;
    const std::string bytes("a\r\n\0\xff b ", 8);
    write_file(folder / "text", bytes);
    Options o;
    o.prompt_from = PromptFrom::kFile;
    o.prompt = folder / "text";

    EXPECT_EQ(read_prompt_text(o), bytes);
}

}  // namespace
}  // namespace trireme::test
