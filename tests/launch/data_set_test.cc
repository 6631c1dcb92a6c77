// Reading the texts of --data and --dataset.

#include "launch/run/data_set.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/text_file.h"
#include "launch/run/data_choice.h"
#include "model/tokenizer/token_store.h"
#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<DataText> read(const std::string& data, const std::string& dataset = "", const DataChoice& choice = {}) {
    Options o;
    o.data = data;
    o.dataset = dataset;
    return read_data(o, choice).texts;
}

std::string refusal(const std::string& data, const std::string& dataset = "", const DataChoice& choice = {}) {
    try {
        read(data, dataset, choice);
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
    EXPECT_THAT(b[1].ids.value(), ElementsAre(4, 5));
    EXPECT_FALSE(b[0].ids.has_value());
    EXPECT_EQ(b[1].name, "b.jsonl:3");
    EXPECT_EQ(b[1].where, folder / "b.jsonl:3");
    EXPECT_EQ(b[2].text, "six");

    write_file(folder / "README", "not a text");
    std::vector<std::string> texts;
    for (const DataText& t : read(folder.path())) texts.push_back(t.text);
    EXPECT_THAT(texts, ElementsAre("one\ntwo\n", "three", "", "six"));
}

TEST(BenchData, IsTheTextThatABatchHasWritten) {
    const TempFolder folder;
    write_file(folder / "out.jsonl",
               R"({"index":0,"request":{"prompt":"one"},"result":{"choices":[{"text":"two"},{"text":"three"}]}})"
               "\n"
               R"({"prompt": "four", "choices": ["A", "B"], "result": {"choices": 1}})");
    std::vector<std::string> texts;
    for (const DataText& t : read(folder / "out.jsonl")) texts.push_back(t.text);
    EXPECT_THAT(texts, ElementsAre("two", "three", "four"));
    write_file(folder / "bad.jsonl", R"({"request":{},"result":{"choices":["two"]}})");
    EXPECT_THAT(refusal(folder / "bad.jsonl"), HasSubstr("bad.jsonl:1: holds string"));
    write_file(folder / "bad.jsonl", R"({"request":{},"result":{"choices":[]}})");
    EXPECT_THAT(refusal(folder / "bad.jsonl"), HasSubstr("66 "));
}

TEST(BenchData, OfTriForceLiesInFolders) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "pg19");
    std::filesystem::create_directory(folder / "lwm");
    for (char c = 'a'; c <= 'w'; ++c) {  // 23 files, and one with a second line
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
    EXPECT_THAT(refusal(folder.path(), "demo"), AllOf(HasSubstr("66 --dataset demo: "), HasSubstr(folder / "demo")));
}

TEST(BenchData, ThatIsNoneIsRefused) {
    const TempFolder folder;
    EXPECT_THAT(refusal(folder / "nowhere"), HasSubstr("66 " + (folder / "nowhere") + ": "));
    EXPECT_THAT(refusal(folder.path()), AllOf(HasSubstr("66 " + folder.path() + ": "), HasSubstr(".jsonl or .json")));
    const auto of = [&](const std::string& text) {
        write_file(folder / "x.jsonl", text);
        return refusal(folder / "x.jsonl");
    };
    EXPECT_THAT(of(""), HasSubstr("66 "));
    EXPECT_THAT(of("\n \n"), HasSubstr("no lines"));
    EXPECT_THAT(of("{\"prompt\": \"a\"}\n{}\n"), ContainsRegex("x.jsonl:2: .*prompt .*text .*input_ids"));
    EXPECT_THAT(of("[1]"), HasSubstr("65 " + (folder / "x.jsonl:1: holds array")));
    EXPECT_THAT(of("{\"prompt\": 3}"), HasSubstr("x.jsonl:1: prompt is number"));
    EXPECT_THAT(of("{\"input_ids\": []}"), HasSubstr("x.jsonl:1: input_ids is empty"));
    EXPECT_THAT(of("{\"input_ids\": [1, 2.5]}"), HasSubstr("x.jsonl:1: input_ids: element 1 is 2.5"));
    EXPECT_THAT(of("{\"prompt\": "), HasSubstr("65 " + (folder / "x.jsonl:1")));
}

std::vector<int64_t> order(int64_t n, const DataChoice& choice) {
    return chosen(n, choice, "books", "texts");
}

// A Python program computed these from the definition in data_choice.h and the published philox4x32-10.
TEST(DataChoice, ASeedIsOneOrder) {
    EXPECT_THAT(order(7, {.shuffle = 0}), ElementsAre(1, 2, 0, 3, 6, 5, 4));
    EXPECT_THAT(order(7, {.shuffle = 1}), ElementsAre(1, 3, 2, 0, 4, 6, 5));
    EXPECT_THAT(order(11, {.shuffle = UINT64_MAX}), ElementsAre(6, 2, 9, 0, 5, 8, 3, 4, 1, 7, 10));
    EXPECT_THAT(order(11, {.shuffle = 42}), ElementsAre(2, 10, 0, 4, 6, 8, 5, 7, 1, 9, 3));
}

TEST(DataChoice, TakesAPartOfTheWholeOrder) {
    for (const std::optional<uint64_t> shuffle : {std::optional<uint64_t>(), std::optional<uint64_t>(9)}) {
        for (const int64_t n : {1, 2, 17, 257}) {
            const std::vector<int64_t> all = order(n, {.shuffle = shuffle});
            std::vector<int64_t> sorted = all;
            std::ranges::sort(sorted);
            for (int64_t i = 0; i < n; ++i) ASSERT_EQ(sorted[static_cast<size_t>(i)], i);
            EXPECT_EQ(std::ranges::is_sorted(all), !shuffle || n <= 2);
            for (const int64_t skip : {int64_t{0}, n / 3, n - 1}) {
                for (const int64_t limit : {int64_t{0}, int64_t{1}, n / 2 + 1, n, n + 5, INT64_MAX}) {
                    const int64_t taken = limit == 0 ? n - skip : std::min(limit, n - skip);
                    EXPECT_THAT(order(n, {.shuffle = shuffle, .skip = skip, .limit = limit}),
                                ElementsAreArray(all.begin() + skip, all.begin() + skip + taken))
                        << n << " " << skip << " " << limit;
                }
            }
        }
    }
    EXPECT_TRUE(order(0, {.shuffle = 3, .skip = 2, .limit = 1}).empty());
}

// Every order of four is equally likely: each has an expected count of 1000 over 24 000 seeds. Chi-squared with 23
// degrees of freedom exceeds 60 once in 30 000 draws; the seeds are fixed.
TEST(DataChoice, EveryOrderIsAsLikely) {
    std::map<std::vector<int64_t>, int> seen;
    for (uint64_t seed = 0; seed < 24000; ++seed) ++seen[order(4, {.shuffle = seed})];
    ASSERT_THAT(seen, SizeIs(24));
    double chi = 0;
    for (const auto& [which, n] : seen) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
    EXPECT_LT(chi, 60);
}

TEST(DataChoice, IsOfEveryKindOfData) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "texts");
    std::string lines;
    for (int i = 0; i < 7; ++i) {
        lines += fmt::format("{{\"prompt\": \"{}\"}}\n", i);
        write_file(folder / fmt::format("texts/{}.txt", i), std::to_string(i));
    }
    write_file(folder / "lines.jsonl", lines);
    const DataChoice choice = {.shuffle = 0, .skip = 1, .limit = 3};
    for (const std::string& path : {folder / "texts", folder / "lines.jsonl"}) {
        const auto texts = [&](const DataChoice& c) {
            std::vector<std::string> all;
            for (const DataText& t : read(path, "", c)) all.push_back(t.text);
            return all;
        };
        EXPECT_THAT(texts(choice), ElementsAre("2", "0", "3"));
        EXPECT_THAT(texts({.shuffle = {}, .skip = 2, .limit = 2}), ElementsAre("2", "3"));
        EXPECT_THAT(texts({.shuffle = {}, .skip = 5, .limit = 9}), ElementsAre("5", "6"));
        EXPECT_THAT(refusal(path, "", {.shuffle = {}, .skip = 7, .limit = 1}),
                    HasSubstr("78 --skip 7: " + path + " has 7 texts"));
        EXPECT_THAT(refusal(path, "", {.shuffle = 4, .skip = 8, .limit = 0}), HasSubstr("78 --skip 8: "));
    }
    // Nothing after the last selected text is read.
    write_file(folder / "lines.jsonl", lines + "no JSON\n");
    EXPECT_THAT(read(folder / "lines.jsonl", "", {.shuffle = {}, .skip = 0, .limit = 7}), SizeIs(7));
    EXPECT_THAT(refusal(folder / "lines.jsonl"), HasSubstr("lines.jsonl:8"));
}

std::vector<std::pair<std::string, int64_t>> lines_of_text(const std::string& text) {
    std::vector<std::pair<std::string, int64_t>> all;
    for_lines(text, [&](std::string_view line, int64_t number) { all.emplace_back(line, number); });
    return all;
}

// Lines and errors of a file that is read in blocks (64 KiB) equal those of its text in memory.
TEST(Lines, OfAFileAreThoseOfItsText) {
    const TempFolder folder;
    const std::string path = folder / "lines";
    const auto lines_of_file = [&](const std::string& text, size_t longest = 1 << 20) {
        write_file(path, text);
        std::vector<std::pair<std::string, int64_t>> all;
        for_lines_of(path, longest, {}, [&](std::string_view line, int64_t number) {
            all.emplace_back(line, number);
            return true;
        });
        return all;
    };
    const std::string huge(200001, 'x');
    for (const std::string& text :
         {std::string(), std::string("\n"), std::string("a"), std::string("a\nb"), std::string("a\r\n \t\r\n\n b \n"),
          huge, "a\n" + huge + "\r\n\nb", std::string(65535, 'y') + "\r\nz\n", std::string(65536, '\n') + "z"}) {
        EXPECT_EQ(lines_of_file(text), lines_of_text(text)) << text.substr(0, 20);
    }
    try {
        lines_of_file("a\n" + huge, 100000);
        ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kData);
        EXPECT_THAT(e.what(), HasSubstr(path + ":2: more than 100000 bytes"));
    }
    int64_t seen = 0;
    for_lines_of(path, huge.size(), {}, [&](std::string_view, int64_t) { return ++seen < 1; });
    EXPECT_EQ(seen, 1);
}

/// A tokenizer with one id per byte.
class Bytes final : public Tokenizer {
  public:
    std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
        std::vector<int32_t> ids(add_special ? 1 : 0, 0);
        for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
        return ids;
    }
    std::string piece(int32_t id) const override { return {static_cast<char>(id)}; }
    int64_t vocab() const override { return 256; }
    int32_t bos() const override { return bos_; }
    int32_t bos_ = 0;
};

TEST(DataStores, AreReadLikeTexts) {
    const TempFolder folder;
    const std::string path = folder / "ids.h5";
    Bytes tokenizer;
    TokenStoreWriter writer(path, IfThere::kRefuse, TokenizerIdentity::of(tokenizer), /*add_special=*/true);
    for (int32_t i = 0; i < 7; ++i)
        writer.add("t" + std::to_string(i), std::vector<int32_t>(static_cast<size_t>(i), i));
    writer.publish([] {});

    Options o;
    o.data = path;
    const DataSet set = read_data(o, {.shuffle = 0, .skip = 1, .limit = 3}, {}, /*most=*/2);
    ASSERT_THAT(set.texts, SizeIs(3));  // texts 2, 0, 3 of those above, cut to two ids
    EXPECT_THAT(set.texts[0].ids.value(), ElementsAre(2, 2));
    EXPECT_THAT(set.texts[1].ids.value(), ElementsAre());
    EXPECT_THAT(set.texts[2].ids.value(), ElementsAre(3, 3));
    EXPECT_EQ(set.texts[2].name, "t3");
    EXPECT_EQ(set.texts[2].where, path + ": text 3 (t3)");
    // A text with an empty list of ids is not encoded.
    EXPECT_THAT(ids_of(set.texts[1], &tokenizer, true), ElementsAre());
    EXPECT_THAT(refusal(path, "", {.shuffle = {}, .skip = 7, .limit = 0}), HasSubstr("78 --skip 7: " + path));

    const auto refused = [&](const Tokenizer* by, std::optional<bool> add_special) -> std::string {
        try {
            set.require_made_by(by, add_special);
        } catch (const Error& e) {
            return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
        }
        return "accepted";
    };
    EXPECT_EQ(refused(&tokenizer, {}), "accepted");
    EXPECT_EQ(refused(&tokenizer, true), "accepted");
    EXPECT_THAT(refused(&tokenizer, false), HasSubstr("78 --add-special=off with " + path));
    EXPECT_THAT(refused(nullptr, {}), HasSubstr("66 " + path));
    tokenizer.bos_ = 3;
    EXPECT_THAT(refused(&tokenizer, {}),
                AllOf(HasSubstr("65 " + path + ": "), HasSubstr("BOS is 0, not 3"), HasSubstr("--tokens")));
}

TEST(DataStores, AreNoTexts) {
    const TempFolder folder;
    std::filesystem::create_directory(folder / "texts");
    write_file(folder / "texts/x.h5", "not ours");
    write_file(folder / "texts/a.txt", "a");
    EXPECT_THAT(refusal(folder / "texts/x.h5"),
                AllOf(HasSubstr("65 " + (folder / "texts/x.h5: ")), HasSubstr("trireme's")));
    EXPECT_THAT(read(folder / "texts"), SizeIs(1));
    EXPECT_THAT([&] { for_texts(folder / "texts/x.h5", {}, [](DataText) { return true; }); },
                testing::ThrowsMessage<Error>(HasSubstr("texts/x.h5: is a store")));
}

}  // namespace
}  // namespace trireme::test
