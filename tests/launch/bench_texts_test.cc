// What --data and --dataset name becomes texts.

#include "launch/commands/bench_texts.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<DataText> read(const std::string& data, const std::string& dataset = "") {
    Options o;
    o.data = data;
    o.dataset = dataset;
    return read_data(o);
}

std::string refusal(const std::string& data, const std::string& dataset = "") {
    try {
        read(data, dataset);
    } catch (const Error& e) {
        return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
    }
    return "accepted";
}

TEST(BenchData, IsATextAFileOrATextALine) {
    const TempFolder folder;
    write_file(folder / "a.txt", "one\ntwo\n");
    write_file(folder / "b.jsonl",
               "{\"prompt\": \"three\", \"task_id\": 1}\n\n{\"input_ids\": [4, 5], \"output_tokens\": 7}\r\n"
               "{\"text\": \"six\"}");
    const auto a = read(folder / "a.txt"), b = read(folder / "b.jsonl");
    ASSERT_THAT(a, SizeIs(1));
    EXPECT_EQ(a[0].text, "one\ntwo\n");
    ASSERT_THAT(b, SizeIs(3));
    EXPECT_EQ(b[0].text, "three");
    EXPECT_EQ(b[0].where, folder / "b.jsonl:1");
    EXPECT_THAT(b[1].ids, ElementsAre(4, 5));
    EXPECT_EQ(b[1].where, folder / "b.jsonl:3");
    EXPECT_EQ(b[2].text, "six");

    write_file(folder / "README", "not a text");
    std::vector<std::string> texts;
    for (const DataText& t : read(folder.path())) texts.push_back(t.text);
    EXPECT_THAT(texts, ElementsAre("one\ntwo\n", "three", "", "six"));
}

TEST(BenchData, OfTriForceLiesInFolders) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "pg19");
    std::filesystem::create_directory(folder / "lwm");
    for (char c = 'a'; c <= 'w'; ++c) {  // 23 files, and one more line
        const std::string text = std::string("{\"text\": \"") + c + "\"}\n";
        write_file(folder / (std::string("pg19/") + c + ".json"), c == 'w' ? text + text : text);
    }
    write_file(folder / "lwm/1.txt", "lwm");
    EXPECT_THAT(read(folder.path(), "128k"), SizeIs(24));
    const auto gs = read(folder.path(), "gs");
    ASSERT_THAT(gs, SizeIs(20));
    EXPECT_EQ(gs[0].text, "a");
    EXPECT_EQ(gs[19].text, "t");
    EXPECT_THAT(read(folder.path(), "lwm"), SizeIs(1));
    EXPECT_THAT(refusal(folder.path(), "demo"), HasSubstr("66 --dataset demo: no folder " + (folder / "demo")));
}

TEST(BenchData, ThatIsNoneIsRefused) {
    const TempFolder folder;
    EXPECT_THAT(refusal(folder / "nowhere"), HasSubstr("66 " + (folder / "nowhere") + ": cannot be opened"));
    EXPECT_THAT(refusal(folder.path()), HasSubstr(": no texts there; want files that end in .txt, .jsonl or .json"));
    const auto of = [&](const std::string& text) {
        write_file(folder / "x.jsonl", text);
        return refusal(folder / "x.jsonl");
    };
    EXPECT_THAT(of(""), HasSubstr("66 "));
    EXPECT_THAT(of("\n \n"), HasSubstr(": has no lines"));
    EXPECT_THAT(of("{\"prompt\": \"a\"}\n{}\n"), HasSubstr("x.jsonl:2: has neither prompt nor text nor input_ids"));
    EXPECT_THAT(of("[1]"), HasSubstr("65 " + (folder / "x.jsonl:1: holds array, want an object")));
    EXPECT_THAT(of("{\"prompt\": 3}"), HasSubstr("x.jsonl:1: prompt is number, want a text"));
    EXPECT_THAT(of("{\"input_ids\": []}"), HasSubstr("x.jsonl:1: input_ids is empty"));
    EXPECT_THAT(of("{\"input_ids\": [1, 2.5]}"), HasSubstr("x.jsonl:1: input_ids: element 1 is 2.5"));
    EXPECT_THAT(of("{\"prompt\": "), HasSubstr("65 " + (folder / "x.jsonl:1")));
}

}  // namespace
}  // namespace trireme::test
