#include "model/files/json.h"

#include <gtest/gtest.h>

#include "model/files/shown.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

void expect_refused(const std::string& text, const std::vector<std::string>& parts, JsonLimits limits = {}) {
    expect_error([&] { parse_json(text, "x.json", limits); }, Exit::kData, parts);
}

TEST(Json, BuildsTheSameValueAsTheLibrary) {
    const std::string text =
        R"({"a": [1, -2, 3.5, true, null, "s\n\u00e9"], "b": {"c": {}, "d": []}, "e": 18446744073709551615})";
    EXPECT_EQ(parse_json(text, "x.json"), Json::parse(text));
}

TEST(Json, NamesTheLineOfAnError) {
    expect_refused("{\n\"a\": 1,\n\"b\": }", {"x.json", "line 3"});
    expect_refused("", {"line 1"});
    expect_refused("{\"a\": 1} x", {"not valid JSON"});
    expect_refused("[1, 2", {"not valid JSON"});
    expect_refused("\"\xff\"", {"UTF-8"});
    expect_refused("nan", {"not valid JSON"});
    expect_refused("{\"a\": 1e999}", {"number overflow"});
}

TEST(Json, ReadsNumbersThatPythonWritesAsTexts) {
    const std::string text = R"({"a": NaN, "b": [0.0, -Infinity, Infinity], "c": "NaN \"Infinity", "d": 1})";
    EXPECT_EQ(parse_json(text, "x.json", {.by_python = true}),
              Json::parse(R"({"a": "NaN", "b": [0.0, "-Infinity", "Infinity"], "c": "NaN \"Infinity", "d": 1})"));
    expect_refused(text, {"not valid JSON"});
    expect_refused("{\"a\": NaNa}", {"not valid JSON"}, {.by_python = true});
    expect_refused("{\"a\": Infinit", {"not valid JSON"}, {.by_python = true});
    EXPECT_EQ(parse_json(R"("a\\")", "x.json", {.by_python = true}), "a\\");
}

TEST(Json, RefusesDuplicateKeys) {
    expect_refused(R"({"a": 1, "b": {"a": 2}, "a": 3})", {"'a' appears twice"});
    EXPECT_EQ(parse_json(R"([{"a": 1}, {"a": 2}])", "x.json").size(), 2u);
}

TEST(Json, IsBoundedInDepthBytesAndValues) {
    const auto nested = [](int n) {
        return std::string(static_cast<size_t>(n), '[') + std::string(static_cast<size_t>(n), ']');
    };
    EXPECT_NO_THROW(parse_json(nested(64), "x.json"));
    expect_refused(nested(65), {"deeper than 64"});
    expect_refused(nested(100000), {"deeper than 64"});
    expect_refused("[1, 2]", {"6 bytes of JSON, at most 5"}, {.bytes = 5});
    EXPECT_NO_THROW(parse_json("[1, 2]", "x.json", {.values = 3}));
    expect_refused("[1, 2, 3]", {"more than 3 JSON values"}, {.values = 3});
}

TEST(Shown, EscapesControlsAndCutsAtACharacter) {
    EXPECT_EQ(shown("model.norm.weight"), "model.norm.weight");
    EXPECT_EQ(shown("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
    const std::string cut = shown(std::string(119, 'x') + "\xe2\x82\xac" + "tail");
    EXPECT_EQ(cut, std::string(119, 'x') + "...");
}

}  // namespace
}  // namespace trireme::test
