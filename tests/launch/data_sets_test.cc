// trireme convert --tokens, and the commands that read its files.

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::vector<std::string> kTexts = {"In the beginning God created the heaven and the earth.",
                                         "And the earth was without form, and void;",
                                         "And God said, Let there be light: and there was light."};

/// A data set as the HDF5 library reads it, without our reader.
template <class T>
std::vector<T> dataset(const std::string& path, const char* name, hid_t type) {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    std::vector<T> values(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    EXPECT_GE(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0) << name;
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    return values;
}
std::vector<std::vector<int32_t>> texts_in(const std::string& path) {
    const std::vector<int32_t> ids = dataset<int32_t>(path, "ids", H5T_NATIVE_INT32);
    const std::vector<int64_t> offsets = dataset<int64_t>(path, "offsets", H5T_NATIVE_INT64);
    std::vector<std::vector<int32_t>> all;
    for (size_t t = 0; t + 1 < offsets.size(); ++t) {
        all.emplace_back(ids.begin() + offsets.at(t), ids.begin() + offsets.at(t + 1));
    }
    return all;
}
std::vector<std::string> names_in(const std::string& path) {
    const std::vector<char> names = dataset<char>(path, "names", H5T_NATIVE_UINT8);
    const std::vector<int64_t> offsets = dataset<int64_t>(path, "name_offsets", H5T_NATIVE_INT64);
    std::vector<std::string> all;
    for (size_t t = 0; t + 1 < offsets.size(); ++t) {
        all.emplace_back(names.begin() + offsets.at(t), names.begin() + offsets.at(t + 1));
    }
    return all;
}
Json about_of(const std::string& path) {
    const std::vector<char> text = dataset<char>(path, "about", H5T_NATIVE_UINT8);
    return Json::parse(text.begin(), text.end());
}

class DataSets : public testing::Test {
  protected:
    Words convert(const std::string& from, const Words& more = {}) const {
        Words words = {"convert", "-m", model(), "--tokens", from, "-o", out()};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    std::string out() const { return folder_ / "ids.h5"; }
    std::string lines() const { return folder_ / "lines.jsonl"; }
    void write_lines() const {
        std::string text;
        for (const std::string& t : kTexts) text += Json{{"text", t}}.dump() + "\n";
        write_file(lines(), text);
    }
    /// Expects one error line, this exit code, and no output file.
    void expect_refused(const Words& words, int status, const std::string& says) const {
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr(says))) << r.err;
        EXPECT_EQ(r.out, "");
    }

    TempFolder folder_;
};

// The ids of 2,000 strings, made by sentencepiece itself (tests/data/README.md); the golden's tokenizer is the model's.
TEST_F(DataSets, HaveTheIdsOfTheReference) {
    const std::string golden_folder = data("tokenizers/sentencepiece");
    const Json golden = Json::parse(read_file(golden_folder + "/golden.json"));
    std::string text;
    for (const Json& s : golden["strings"]) text += Json{{"prompt", s}}.dump() + "\n";
    write_file(lines(), text);

    const ProcessResult r = trireme(convert(lines(), {"--no-bos"}));
    ASSERT_EQ(r.status, 0) << r.err;
    const auto got = texts_in(out());
    ASSERT_EQ(got.size(), golden["ids"].size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], golden["ids"][i].get<std::vector<int32_t>>()) << i;
    EXPECT_EQ(about_of(out())["add_special"], false);
    EXPECT_EQ(about_of(out())["texts"], 2000);

    // A folder with only a tokenizer is sufficient, and gives the same file.
    const std::string other = folder_ / "other.h5";
    ASSERT_EQ(trireme({"convert", "-m", golden_folder, "--tokens", lines(), "-o", other, "--no-bos"}).status, 0);
    EXPECT_EQ(read_file(other), read_file(out()));
}

TEST_F(DataSets, ComeFromFilesFoldersAndStdinOnAnyNumberOfRanks) {
    std::filesystem::create_directory(folder_ / "in");
    write_file(folder_ / "in/b.txt", kTexts[0]);
    write_file(folder_ / "in/a.jsonl", Json{{"prompt", kTexts[1]}}.dump() + "\n\r\n" + R"({"input_ids": [3, 1, 4]})" +
                                           "\n" + Json{{"text", ""}}.dump());
    write_file(folder_ / "in/empty.txt", "");
    write_file(folder_ / "in/notes.md", "no text");
    const ProcessResult r = trireme(convert(folder_ / "in"));
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, testing::ContainsRegex(": 1 of its files [^\n]*notes.md"));
    EXPECT_EQ(r.out, "");
    const auto with_bos = [&](const std::string& text) {
        return Json::parse(trireme({"tokenize", "-m", model(), "-p", text, "--add-special"}).out)
            .get<std::vector<int32_t>>();
    };
    EXPECT_THAT(texts_in(out()), ElementsAre(with_bos(kTexts[1]), std::vector<int32_t>{3, 1, 4}, with_bos(""),
                                             with_bos(kTexts[0]), with_bos("")));
    EXPECT_THAT(names_in(out()), ElementsAre("a.jsonl:1", "a.jsonl:3", "a.jsonl:4", "b.txt", "empty.txt"));
    EXPECT_EQ(about_of(out())["add_special"], true);
    EXPECT_THAT(folder_.names(), ElementsAre("ids.h5", "in"));

    const std::string alone = read_file(out());
    EXPECT_EQ(trireme_on(2, convert(folder_ / "in", {"--force"})).status, 0);
    EXPECT_EQ(read_file(out()), alone);

    ASSERT_EQ(trireme(convert("-", {"--force"}), {.input = kTexts[2]}).status, 0);
    EXPECT_THAT(texts_in(out()), ElementsAre(with_bos(kTexts[2])));
    EXPECT_THAT(names_in(out()), ElementsAre("stdin"));
}

TEST_F(DataSets, AreContinuedLikeTheirTexts) {
    write_lines();
    ASSERT_EQ(trireme(convert(lines())).status, 0);
    const auto batch = [&](const std::string& data, const Words& more) {
        const std::string results = folder_ / "results.jsonl";
        Words words = {"batch",  "-m", model(), "--data", data, "-o", results,
                       "--temp", "0",  "-n",    "6",      "-t", "1",  "--force"};
        words.insert(words.end(), more.begin(), more.end());
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, 0) << r.err;
        std::vector<Json> all;
        for (const std::string& line : lines_of(read_file(results))) {
            all.push_back(Json::parse(line));
            all.back()["result"].erase("request_time");
            all.back()["request"].erase("digest");
        }
        return all;
    };
    const std::vector<Json> of_ids = batch(out(), {});
    EXPECT_EQ(of_ids, batch(lines(), {}));
    ASSERT_THAT(of_ids, SizeIs(3));
    for (size_t i = 0; i < kTexts.size(); ++i) {
        const ProcessResult one =
            trireme({"generate", "-m", model(), "-p", kTexts[i], "-n", "6", "--temp", "0", "-t", "1"});
        EXPECT_EQ(of_ids[i].at("/result/choices/0/text"_json_pointer).get<std::string>(), one.out);
        EXPECT_EQ(of_ids[i]["request"]["source"], "lines.jsonl:" + std::to_string(i + 1));
    }
    EXPECT_EQ(batch(out(), {"-np", "3"}), of_ids);
    // The order of three texts for seed 0 (data_set_test.cc has its definition), then the second text of that order.
    const std::vector<Json> shuffled = batch(out(), {"--shuffle", "0"});
    EXPECT_EQ(batch(lines(), {"--shuffle", "0"}), shuffled);
    ASSERT_THAT(shuffled, SizeIs(3));
    const std::vector<Json> second = batch(out(), {"--shuffle", "0", "--skip", "1", "--limit", "1"});
    ASSERT_THAT(second, SizeIs(1));
    EXPECT_EQ(second[0]["result"], shuffled[1]["result"]);
    EXPECT_EQ(batch(out(), {"--limit", "0"}), of_ids);

    // An interrupted batch continues after the results that exist, and refuses another order.
    const std::string results = folder_ / "results.jsonl";
    const Words go_on = {"batch", "-m", model(), "--data", out(), "-o", results, "--temp", "0", "-n", "6", "-t", "1"};
    ASSERT_THAT(batch(out(), {"--limit", "1"}), SizeIs(1));
    EXPECT_EQ(trireme(go_on).status, 0);
    EXPECT_THAT(lines_of(read_file(results)), SizeIs(3));
    Words other = go_on;
    other.insert(other.end(), {"--skip", "1"});
    expect_refused(other, 65, "results.jsonl:1: its request");
}

TEST_F(DataSets, AreScoredAndMeasuredLikeTheirTexts) {
    write_lines();
    ASSERT_EQ(trireme(convert(lines())).status, 0);
    const ProcessResult all = trireme({"score", "-m", model(), "--data", out(), "-t", "1"});
    ASSERT_EQ(all.status, 0) << all.err;
    const std::vector<std::string> scored = lines_of(all.out);
    ASSERT_THAT(scored, SizeIs(3));
    for (size_t i = 0; i < kTexts.size(); ++i) {
        const Json one = Json::parse(trireme({"score", "-m", model(), "-p", kTexts[i], "-o", "-", "-t", "1"}).out);
        double sum = 0;
        for (const double x : one["logprobs"]) sum += x;
        const Json line = Json::parse(scored[i]);
        EXPECT_EQ(line["tokens"], one["logprobs"].size());
        // The logits are the same; a few hundred doubles are added in another order.
        EXPECT_NEAR(line["logprob"].get<double>(), sum, std::abs(sum) * 1e-12);
    }
    const ProcessResult last = trireme({"score", "-m", model(), "--data", out(), "-t", "1", "--skip", "2"});
    ASSERT_THAT(lines_of(last.out), SizeIs(1));
    EXPECT_EQ(Json::parse(lines_of(last.out)[0])["logprob"], Json::parse(scored[2])["logprob"]);

    const auto bench = [&](const std::string& from) {
        const ProcessResult r =
            trireme({"bench", "-m", model(),  "--data", from, "--prefill", "12",        "-n", "4",       "-r", "1",
                     "-t",    "1",  "--temp", "0",      "-o", "json",      "--shuffle", "5",  "--limit", "2"});
        EXPECT_EQ(r.status, 0) << r.err;
        const Json row = Json::parse(r.out, nullptr, /*allow_exceptions=*/false)[0];
        return std::pair(row["n_prompt"], row["texts"]);
    };
    EXPECT_EQ(bench(out()), bench(lines()));
    EXPECT_EQ(bench(out()), std::pair(Json(12), Json(2)));

    // Pairs can also be selected.
    std::string pairs;
    for (const std::string& t : kTexts) pairs += Json{{"context", "x"}, {"continuation", t}}.dump() + "\n";
    write_file(folder_ / "pairs.jsonl", pairs);
    const Words score = {"score", "-m", model(), "--data", folder_ / "pairs.jsonl", "-t", "1"};
    const std::vector<std::string> whole = lines_of(trireme(score).out);
    Words some = score;
    some.insert(some.end(), {"--skip", "1", "--limit", "1"});
    ASSERT_THAT(whole, SizeIs(3));
    ASSERT_THAT(lines_of(trireme(some).out), SizeIs(1));
    EXPECT_EQ(Json::parse(lines_of(trireme(some).out)[0])["logprob"], Json::parse(whole[1])["logprob"]);
}

TEST_F(DataSets, OfAnotherTokenizerAreRefused) {
    write_lines();
    ASSERT_EQ(trireme({"convert", "-m", data("tokenizers/llama2"), "--tokens", lines(), "-o", out()}).status, 0);
    const std::string says = "another tokenizer";
    expect_refused({"score", "-m", model(), "--data", out()}, 65, says);
    expect_refused({"bench", "-m", model(), "--data", out(), "--prefill", "4"}, 65, says);
    expect_refused({"batch", "-m", model(), "--data", out(), "-o", folder_ / "r.jsonl"}, 65, says);
    EXPECT_THAT(folder_.names(), ElementsAre("ids.h5", "lines.jsonl"));
}

TEST_F(DataSets, AreRefusedInOneLine) {
    write_lines();
    ASSERT_EQ(trireme(convert(lines())).status, 0);
    expect_refused(convert(lines()), 73, "--output-path " + out() + ": exists");
    const Words score = {"score", "-m", model(), "--data", out()};
    const auto with = [](Words words, const Words& more) {
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    expect_refused(with(score, {"--skip", "3"}), 78, "--skip 3: " + out() + " has 3 texts");
    expect_refused(with(score, {"--no-bos"}), 78, "--add-special=off with " + out());
    expect_refused(with(score, {"--limit", "-1"}), 78, "--limit");
    expect_refused(with(score, {"--shuffle", "many"}), 78, "--shuffle");
    expect_refused({"batch", "-m", model(), "--data", lines(), "--input", lines(), "-o", folder_ / "r"}, 64,
                   "--data: contradicts --input");
    expect_refused({"batch", "-m", model(), "--input", out(), "-o", folder_ / "r"}, 65, "with --data");
    expect_refused({"batch", "-m", model(), "--data", out(), "-o", out(), "--force"}, 64, "--data and --output-path");

    const std::string kept = read_file(out());
    expect_refused(convert(out(), {"--force"}), 64, "--tokens and --output-path");
    const auto into = [&](const std::string& from, const Words& more = {}) {
        return with({"convert", "-m", model(), "--tokens", from, "-o", folder_ / "new.h5"}, more);
    };
    expect_refused(into(out()), 65, out() + ": is a store");
    expect_refused(into(folder_ / "nowhere"), 66, folder_ / "nowhere");
    write_file(folder_ / "blank.jsonl", "\n \n");
    expect_refused(into(folder_ / "blank.jsonl"), 66, "blank.jsonl: has no lines");
    write_file(folder_ / "wrong.jsonl", "{\"prompt\": \"a\"}\n{\"input_ids\": [1, 1024]}\n");
    expect_refused(into(folder_ / "wrong.jsonl"), 78, "wrong.jsonl:2: input_ids: id 1024 at index 1 ");
    expect_refused(into(lines(), {"--average"}), 64, "--tokens with --layer-map or --average");
    expect_refused({"convert", "-m", model(), "--tokens", lines(), "-o", folder_ / "no/new.h5"}, 73, "--output-path");

    // A damaged file.
    std::string bytes = kept;
    bytes[bytes.size() / 2] ^= 1;
    write_file(out(), bytes);
    const ProcessResult damaged = trireme(score);
    EXPECT_EQ(damaged.status, 65) << damaged.err;
    EXPECT_THAT(error_lines(damaged), SizeIs(1));
    EXPECT_THAT(folder_.names(), Not(testing::Contains("new.h5")));
}

// A line of 3 MB is tokenized by a thread of its own. At a line of 60 MB, a signal ends the run at once.
TEST_F(DataSets, MayHoldHugeLinesAndAreLeftAloneByASignal) {
    std::string text;
    while (text.size() < 3000000) text += kTexts[text.size() % 3] + ' ';
    write_file(lines(), Json{{"text", text}}.dump() + "\n");
    const ProcessResult r = trireme_on(2, convert(lines()));
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(texts_in(out()), SizeIs(1));
    EXPECT_THAT(texts_in(out())[0], SizeIs(testing::Gt(500000u)));
    std::filesystem::remove(out());

    std::string many;
    for (int i = 0; i < 20; ++i) many += text;
    write_file(folder_ / "many.txt", many);
    for (const int number : {SIGTERM, SIGKILL}) {
        const ProcessResult stopped = trireme(convert(folder_ / "many.txt", {"--log-level", "debug"}),
                                              {.signal_at_output = number, .signal_at_error = "reads texts of"});
        EXPECT_EQ(stopped.status, 128 + number) << stopped.err;
        EXPECT_THAT(error_lines(stopped), IsEmpty());
        EXPECT_THAT(folder_.names(), ElementsAre("lines.jsonl", "many.txt"));
    }
    const ProcessResult two = trireme_on(2, convert(folder_ / "many.txt", {"--log-level", "debug"}),
                                         {.signal_at_output = SIGTERM, .signal_at_error = "reads texts of"});
    EXPECT_NE(two.status, 0) << two.err;
    EXPECT_THAT(folder_.names(), ElementsAre("lines.jsonl", "many.txt"));
}

}  // namespace
}  // namespace trireme::test
