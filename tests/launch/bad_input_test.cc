// Invalid input gives one error line and an exit code, nothing on stdout, and no file.

#include <cstring>
#include <filesystem>
#include <functional>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

/// A copy of the model that tests damage.
class Spoilt {
  public:
    explicit Spoilt(const std::string& sound = model()) {
        for (const char* name : {"config.json", "model.safetensors", "tokenizer.model"}) {
            write_file(folder_ / name, read_file(sound + "/" + name));
        }
    }
    std::string path() const { return folder_.path(); }
    Spoilt& replace(const std::string& file, const std::string& from, const std::string& to) {
        std::string text = read_file(folder_ / file);
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
        write_file(folder_ / file, text);
        return *this;
    }
    Spoilt& edit(const std::string& file, const std::function<void(std::string&)>& change) {
        std::string text = read_file(folder_ / file);
        change(text);
        write_file(folder_ / file, text);
        return *this;
    }
    Spoilt& remove(const std::string& file) {
        std::filesystem::remove(folder_ / file);
        return *this;
    }

  private:
    TempFolder folder_;
};

/// Adds an output file to commands that can write one.
Words with_report(Words words, const TempFolder& folder) {
    if (words[0] == "generate") words.insert(words.end(), {"--report-json", folder / "report.json"});
    return words;
}

/// Runs the command on one rank. `want`: substrings of the one error line.
void expect_error(int status, const std::vector<std::string>& want, const Words& words,
                  const ProcessOptions& options = {}) {
    SCOPED_TRACE(testing::PrintToString(words));
    const TempFolder folder;
    const ProcessResult alone = trireme(with_report(words, folder), options);
    EXPECT_EQ(alone.status, status) << alone.err;
    EXPECT_THAT(lines_of(alone.err), SizeIs(1)) << alone.err;
    EXPECT_THAT(alone.err, StartsWith("trireme: error: "));
    EXPECT_EQ(alone.out, "");
    for (const std::string& part : want) EXPECT_THAT(alone.err, HasSubstr(part));
    EXPECT_THAT(folder.names(), SizeIs(0));
}

/// Runs the command on one rank and on two, which exit together. Ranks find mistakes in different places: flags, files,
/// rank 0's prompt, facts that they must agree on. The tests have one input for each place.
void expect_error_on_ranks(int status, const std::vector<std::string>& want, const Words& words,
                           const ProcessOptions& options = {}) {
    expect_error(status, want, words, options);
    SCOPED_TRACE(testing::PrintToString(words));
    const TempFolder folder;
    const ProcessResult two = trireme_on(2, with_report(words, folder), options);
    EXPECT_EQ(two.status, status) << two.err;
    EXPECT_THAT(error_lines(two), SizeIs(1)) << two.err;
    EXPECT_EQ(two.out, "");
    EXPECT_THAT(folder.names(), SizeIs(0));
}

Words with_model(const std::string& path) {
    return {"generate", "-m", path, "-p", "In the beginning", "-n", "2", "-t", "1"};
}
Words good(Words more) {
    Words words = {"generate", "-m", model(), "-n", "2", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(BadInput, CommandLine) {
    expect_error_on_ranks(64, {"--sed: ", "--seed"}, good({"-p", "x", "--sed", "1"}));
    expect_error(64, {"-f: ", "-p"}, good({"-p", "x", "-f", "y"}));
    expect_error(78, {"--top-k '-1'", " 0"}, good({"-p", "x", "--top-k", "-1"}));
    expect_error_on_ranks(78, {"--temp 'nan'"}, good({"-p", "x", "--temp", "nan"}));
    expect_error(78, {"-c '99999999999999999999'"}, good({"-p", "x", "-c", "99999999999999999999"}));
    expect_error(78, {"TRIREME_TOP_P '2'"}, good({"-p", "x"}), {.environment = {"TRIREME_TOP_P=2"}});
    expect_error_on_ranks(78, {"TRIREME_TIMEOUT_S"}, good({"-p", "x"}), {.environment = {"TRIREME_TIMEOUT_S=soon"}});
    expect_error_on_ranks(78, {"TRIREME_SHM_SUMS='no'"}, good({"-p", "x"}), {.environment = {"TRIREME_SHM_SUMS=no"}});
    expect_error_on_ranks(78, {"TRIREME_PDL='no'"}, good({"-p", "x"}), {.environment = {"TRIREME_PDL=no"}});
    expect_error_on_ranks(69, {"--device cuda"}, good({"-p", "x", "--device", "cuda"}));
    expect_error_on_ranks(78, {"--tensor-parallel-size 3"}, good({"-p", "x", "-tp", "3"}));
}

// The warning about the variable explains why the model is missing.
TEST(BadInput, MisspeltVariablesAreReportedWithTheError) {
    const ProcessOptions misspelt = {.environment = {"TRIREME_MODLE=" + model()}};
    for (const ProcessResult& r :
         {trireme({"tokenize", "-p", "x"}, misspelt), trireme_on(2, {"tokenize", "-p", "x"}, misspelt)}) {
        EXPECT_EQ(r.status, 64);
        EXPECT_THAT(r.err, AllOf(HasSubstr("warning: TRIREME_MODLE: "), HasSubstr("TRIREME_MODEL")));
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("-m PATH")));
    }
    EXPECT_THAT(trireme({"--list-devices"}, {.environment = {"TRIREME_CUDA_LIB=/x"}}).err,
                AllOf(HasSubstr("warning: TRIREME_CUDA_LIB: "), HasSubstr("TRIREME_CUDA_LIBS")));
    EXPECT_EQ(trireme({"--help"}, misspelt).err, "");
}

// The error line is coloured on a terminal; a bad variable must not prevent it.
TEST(BadInput, EnvironmentVariablesOnATerminal) {
    const Words words = good({"-p", "x"});
    Words inner = {TRIREME_PROGRAM};
    inner.insert(inner.end(), words.begin(), words.end());
    std::string line = "TRIREME_TIMEOUT_S=soon";
    for (const std::string& word : inner) line += " '" + word + "'";
    const ProcessResult r = run_process({"/usr/bin/script", "-qec", line, "/dev/null"}, {});  // in a pseudoterminal
    EXPECT_EQ(r.status, 78) << r.out;
    EXPECT_THAT(r.out, AllOf(HasSubstr("error:"), HasSubstr("TRIREME_TIMEOUT_S='soon'")));
}

TEST(BadInput, MissingFiles) {
    expect_error_on_ranks(66, {"/nowhere"}, with_model("/nowhere"));
    expect_error_on_ranks(66, {"/nowhere.txt"}, good({"-f", "/nowhere.txt"}));
    expect_error(66, {"/nowhere.json"}, good({"--prompt-ids", "/nowhere.json"}));
    expect_error_on_ranks(66, {"/nowhere.ini"}, good({"-p", "x", "--config", "/nowhere.ini"}));
    expect_error(66, {}, with_model(Spoilt().remove("model.safetensors").path() + "/"));
}

TEST(BadInput, Prompts) {
    const TempFolder folder;
    const auto ids = [&](const std::string& text) {
        write_file(folder / "ids.json", text);
        return good({"--prompt-ids", folder / "ids.json"});
    };
    expect_error_on_ranks(78, {"id 1024 at index 1", "0 to 1023"}, ids("[5, 1024]"));
    expect_error(78, {"id -1 at index 0"}, ids("[-1]"));
    expect_error(78, {"at index 0"}, ids("[18446744073709551615]"));
    expect_error(78, {"0 tokens"}, ids("[]"));
    expect_error(65, {"element 1"}, ids("[1, 2.5]"));
    expect_error(65, {"element 0"}, ids("[\"1\"]"));
    expect_error_on_ranks(65, {"ids.json", "array"}, ids("{\"ids\": [1]}"));
    expect_error(65, {"ids.json"}, ids("[1, 2"));
    expect_error(65, {"ids.json"}, ids("In the beginning"));
    expect_error(78, {"0 tokens"}, good({"-p", "", "--add-special=off"}));
    expect_error_on_ranks(78, {"context 4", "-c"}, good({"-p", "In the beginning was the Word", "-c", "4"}));
    std::string many = "[1";
    for (int i = 1; i < 2048; ++i) many += ",1";
    expect_error(78, {"2048 tokens", "context 2048"}, ids(many + "]"));
}

TEST(BadInput, OutputFiles) {
    const TempFolder folder;
    write_file(folder / "old.json", "kept");
    const Words run = good({"-p", "x"});
    const auto to = [&](const std::string& path) {
        Words words = run;
        words.insert(words.end(), {"--trace", path});
        return words;
    };
    expect_error_on_ranks(73, {"--trace", "exists", "force"}, to(folder / "old.json"));
    expect_error(73, {"--trace", "no regular file"}, to(folder.path()));
    expect_error(73, {"No such file or directory"}, to(folder / "none/t.json"));
    EXPECT_EQ(read_file(folder / "old.json"), "kept");
    EXPECT_THAT(folder.names(), SizeIs(1));

    Words forced = to(folder / "old.json");
    forced.push_back("--force");
    EXPECT_EQ(trireme(forced).status, 0);
    EXPECT_NE(read_file(folder / "old.json"), "kept");
}

TEST(BadInput, Checkpoints) {
    expect_error_on_ranks(
        65, {"model.safetensors"},
        with_model(Spoilt().edit("model.safetensors", [](std::string& s) { s.resize(s.size() / 2); }).path()));
    expect_error(65, {"model.safetensors"},
                 with_model(Spoilt().edit("model.safetensors", [](std::string& s) { s = "garbage"; }).path()));
    expect_error(65, {"model.safetensors"},
                 with_model(Spoilt().edit("model.safetensors", [](std::string& s) { s[7] = '\x7f'; }).path()));
    expect_error(65, {"config.json"},
                 with_model(Spoilt().edit("config.json", [](std::string& s) { s.resize(99); }).path()));
    expect_error_on_ranks(65, {"hyper"},
                          with_model(Spoilt()
                                         .replace("config.json", "\"rope_scaling\": null",
                                                  R"("rope_scaling": {"rope_type": "hyper", "factor": 2.0})")
                                         .path()));
    expect_error(
        65, {"num_hidden_layers"},
        with_model(Spoilt().replace("config.json", "\"num_hidden_layers\": 6", "\"num_hidden_layers\": -6").path()));
    expect_error(65, {"lm_head.weight", "model.embed_tokens.weight"},  // all wrong shapes at once
                 with_model(Spoilt().replace("config.json", "\"vocab_size\": 1024", "\"vocab_size\": 1000").path()));
}

TEST(BadInput, NotANumberAmongTheWeights) {
    Spoilt spoilt;
    spoilt.edit("model.safetensors", [](std::string& s) {
        uint64_t header = 0;
        std::memcpy(&header, s.data(), sizeof header);
        const uint16_t nan = 0x7e00;  // f16
        std::memcpy(s.data() + 8 + header + 2 * 77, &nan, sizeof nan);
    });
    expect_error_on_ranks(65, {"lm_head.weight"}, with_model(spoilt.path()));
}

TEST(BadInput, Tokenizers) {
    expect_error_on_ranks(65, {"tokenizer.model"},
                          with_model(Spoilt().edit("tokenizer.model", [](std::string& s) { s.resize(1000); }).path()));
    expect_error(66, {}, {"tokenize", "-m", "/nowhere", "-p", "x"});
    expect_error(66, {}, with_model(Spoilt().remove("tokenizer.model").path()));
}

/// Starts two ranks with different arguments and folders, as a mistake in a host's environment can do.
ProcessResult unlike(const Words& rank0, const Words& rank1, const std::string& folder0 = ".",
                     const std::string& folder1 = ".") {
    Words argv = {TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "1", "-wdir", folder0};
    argv.emplace_back(TRIREME_PROGRAM);
    argv.insert(argv.end(), rank0.begin(), rank0.end());
    argv.insert(argv.end(), {":", "-n", "1", "-wdir", folder1, TRIREME_PROGRAM});
    argv.insert(argv.end(), rank1.begin(), rank1.end());
    return run_mpirun(argv);
}

TEST(BadInput, RanksThatDisagree) {
    Words other = with_model(model());
    other.insert(other.end(), {"--seed", "5"});
    const ProcessResult r = unlike(with_model(model()), other);

    EXPECT_EQ(r.status, 78) << r.err;
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("rank 1 differs: seed=5 (others 0)")));
    EXPECT_EQ(r.out, "");
}

TEST(BadInput, RanksWithDifferentCheckpointsUnderOneName) {
    const std::vector<std::pair<std::string, std::string>> changes = {
        {"\"rope_theta\": 10000.0", "\"rope_theta\": 500.0"}, {"\"eos_token_id\": 2", "\"eos_token_id\": 5"}};
    for (const auto& [from, to] : changes) {
        const Spoilt same;
        Spoilt other;
        other.replace("config.json", from, to);
        const TempFolder one, two;
        std::filesystem::create_symlink(same.path(), one / "m");
        std::filesystem::create_symlink(other.path(), two / "m");
        const ProcessResult r = unlike(with_model("m"), with_model("m"), one.path(), two.path());
        EXPECT_EQ(r.status, 78) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("rank 1 differs: ")));
    }
}

/// Two ranks, each with its own draft model, in folders that both are called "m".
ProcessResult with_drafts(const Spoilt& draft0, const Spoilt& draft1) {
    Words words = with_model(model());
    words.insert(words.end(), {"--spec", "draft", "-md", "m", "--gamma", "4", "--temp", "0", "-n", "40"});
    const TempFolder one, two;
    std::filesystem::create_symlink(draft0.path(), one / "m");
    std::filesystem::create_symlink(draft1.path(), two / "m");
    return unlike(words, words, one.path(), two.path());
}

TEST(BadInput, RanksWithDifferentDraftsUnderOneName) {
    const std::string draft = data("models/kjv-draft");
    const Spoilt same(draft);
    const auto begin_of_rows = [](const std::string& file) {
        uint64_t header = 0;
        std::memcpy(&header, file.data(), sizeof header);
        return sizeof header + header;
    };
    Spoilt config(draft), rows(draft);
    config.replace("config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 500.0");
    rows.edit("model.safetensors", [&](std::string& file) { file[begin_of_rows(file)] ^= 0x40; });
    for (const auto& [other, what] : {std::pair(&config, "draft rope_theta=500"), {&rows, "draft tensors="}}) {
        const ProcessResult r = with_drafts(same, *other);
        EXPECT_EQ(r.status, 78) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr(std::string("rank 1 differs: ") + what)));
    }
    // Ranks do not compare these rows of weights, but they compare the proposals that result.
    Spoilt behind(draft);
    behind.edit("model.safetensors", [&](std::string& file) {
        for (size_t i = begin_of_rows(file) + 1; i < file.size(); i += 2) {
            if (i / 1024 % 2 == 1) file[i] ^= static_cast<char>(0x80);  // flips signs in odd kilobytes
        }
    });
    const ProcessResult r = with_drafts(same, behind);
    EXPECT_EQ(r.status, 70) << r.err;
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("ranks drew")));
}

TEST(BadInput, OnOneRankOnly) {
    const ProcessResult missing = unlike(with_model(model()), with_model("/nowhere"));
    EXPECT_EQ(missing.status, 66) << missing.err;
    ASSERT_THAT(error_lines(missing), SizeIs(1)) << missing.err;
    EXPECT_THAT(missing.err, HasSubstr("trireme: error: rank 1: /nowhere"));

    Words wrong = with_model(model());
    wrong.insert(wrong.end(), {"--top-k", "-1"});
    const ProcessResult value = unlike(with_model(model()), wrong);
    EXPECT_EQ(value.status, 78) << value.err;
    EXPECT_THAT(error_lines(value), ElementsAre(HasSubstr("rank 1: --top-k '-1'")));
}

TEST(BadInput, MoreRanksThanHeads) {
    const ProcessResult r = trireme_on(5, with_model(model()));
    EXPECT_EQ(r.status, 78) << r.err;
    EXPECT_THAT(error_lines(r), SizeIs(1)) << r.err;
}

}  // namespace
}  // namespace trireme::test
