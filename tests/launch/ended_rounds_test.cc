// Sequences that end inside a round: every chain, a stop at every offset of its rounds, every command that speculates.
// Ending a sequence must not require tokens that an evicting cache no longer has.

#include <csignal>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

constexpr int kTokens = 24;

std::string draft() {
    return data("models/kjv-draft");
}

/// A prompt that is longer than any window, set and budget below, and easy to continue, so that rounds are long.
const std::string kPrompt = [] {
    std::string text;
    for (int i = 0; i < 16; ++i) text += "And God said, Let there be light: and there was light. ";
    return text + "And God saw the light";
}();

const std::vector<Words>& chains() {
    static const std::vector<Words> all = {
        {"--spec", "ngram", "--gamma", "7"},
        {"--spec", "window", "--draft-window", "128", "--gamma", "7"},
        {"--spec", "draft", "-md", draft(), "--gamma", "7"},
        {"--spec", "draft", "-md", draft(), "--draft-window", "128", "--gamma", "7"},
        {"--spec", "draft", "-md", draft(), "--draft-window", "128", "--gamma", "15"},
        {"--spec", "h2o", "--kv-window", "128", "--gamma", "7"},
        {"--spec", "retrieval", "--budget", "64", "--gamma", "7"},
        {"--spec", "tree", "-md", draft(), "--draft-window", "128", "--tree-size", "20", "--gamma", "6"},
        {"--spec", "triforce", "-md", draft(), "--draft-window", "128", "--budget", "64", "--gamma", "7",
         "--gamma-inner", "2"},
        {"--spec", "h2o+retrieval+full", "--budget", "64", "--kv-window", "64", "--gamma", "7", "--gamma-inner", "2"},
        {"--spec", "ngram+window+retrieval+full", "--draft-window", "128", "--budget", "64", "--gamma", "7",
         "--gamma-inner", "2"}};
    return all;
}

Words generate(const Words& more, int tokens = kTokens, const std::string& from = model()) {
    return Words{"generate", "-m", from, "-p", kPrompt, "-n", std::to_string(tokens), "-t", "1", "--no-progress"} +
           more;
}

/// A stop string that is complete at some position of the text, and the text before it.
struct Stop {
    std::string string, text;
};
std::vector<Stop> stops_of(const std::string& text) {
    std::vector<Stop> all;
    for (size_t end = 3; end <= text.size(); end += 2) {
        const std::string stop = text.substr(end - 3, 3);
        all.push_back({stop, text.substr(0, text.find(stop))});
    }
    return all;
}

std::string the_text(const Words& flags) {
    const ProcessResult r = trireme(generate(flags));
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
}

/// Returns the number of stop strings that were tried.
size_t expect_ends(const Words& chain, const Words& sampling, int ranks = 1) {
    const std::string text = the_text(sampling + (sampling[1] == "0" ? Words{} : chain));
    const std::vector<Stop> stops = stops_of(text);
    std::vector<Json> requests;
    for (const Stop& s : stops)
        requests.push_back({{"prompt", kPrompt}, {"max_tokens", kTokens}, {"stop", {s.string}}});
    const BatchFiles files(requests);
    const Words command = files.command(sampling + chain);
    const ProcessResult r = ranks == 1 ? trireme(command) : trireme_on(ranks, command);
    EXPECT_EQ(r.status, 0) << testing::PrintToString(chain) << r.err;
    const std::vector<std::string> texts = files.texts();
    EXPECT_EQ(texts.size(), stops.size()) << testing::PrintToString(chain);
    for (size_t i = 0; i < texts.size(); ++i) {
        EXPECT_EQ(texts[i], stops[i].text) << testing::PrintToString(chain) << " stop '" << stops[i].string << "'";
    }
    return stops.size();
}

const Words kGreedy = {"--temp", "0"}, kSampled = {"--temp", "0.6", "--seed", "5"};

TEST(EndedRounds, StopAtEveryOffsetUnderEveryChain) {
    size_t cells = 0;
    for (const Words& chain : chains()) {
        for (const Words& sampling : {kGreedy, kSampled}) cells += expect_ends(chain, sampling);
    }
    RecordProperty("cells", static_cast<int>(cells));
    EXPECT_GE(cells, 500u);
}

/// A copy of the model with other EOS ids.
class ModelThatEnds {
  public:
    ModelThatEnds() { std::filesystem::copy(model(), path(), std::filesystem::copy_options::recursive); }
    std::string path() const { return folder_ / "model"; }
    void ends_at(int64_t id) const {
        write_file(path() + "/generation_config.json", Json({{"eos_token_id", {2, id}}}).dump());
    }

  private:
    TempFolder folder_;
};

std::vector<int64_t> ids_of(const ProcessResult& r) {
    return Json::parse(r.out).get<std::vector<int64_t>>();
}

// Each id of the continuation is made an EOS id in a separate run: the sequence ends at its first occurrence.
TEST(EndedRounds, EosAtEveryOffsetUnderEveryChain) {
    const ModelThatEnds ends;
    size_t cells = 0;
    for (const Words& chain : chains()) {
        for (const Words& sampling : {kGreedy, kSampled}) {
            const Words flags = sampling + chain + Words{"--print", "ids"};
            const std::vector<int64_t> whole = ids_of(trireme(generate(flags)));
            ASSERT_EQ(std::ssize(whole), kTokens);
            for (auto id = whole.begin(); id != whole.end(); ++id) {
                if (std::find(whole.begin(), id, *id) != id) continue;
                ends.ends_at(*id);
                const ProcessResult r = trireme(generate(flags, kTokens, ends.path()));
                ASSERT_EQ(r.status, 0) << testing::PrintToString(chain) << r.err;
                EXPECT_EQ(ids_of(r), std::vector(whole.begin(), id + 1))
                    << testing::PrintToString(chain) << " EOS " << *id;
                EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "eos"));
                ++cells;
            }
        }
    }
    RecordProperty("cells", static_cast<int>(cells));
    EXPECT_GE(cells, 200u);
}

// A bench ends each repetition at its limit, inside a round or not, and starts the next one.
TEST(EndedRounds, BenchEndsAtEveryOffsetUnderEveryChain) {
    for (const Words& chain : chains()) {
        const Words rest(chain.begin() + 2, chain.end());
        for (int tokens = 2; tokens <= 10; tokens += 2) {
            for (const Words& sampling : {kGreedy + Words{"--require-exact"}, kSampled}) {
                const ProcessResult r =
                    trireme(Words{"bench", "-m", model(), "-p", kPrompt, "-n", std::to_string(tokens), "-r", "2",
                                  "--modes", "none," + (chain[1] == "h2o" ? "h2o+full" : chain[1]), "-t", "1", "-o",
                                  "json", "--no-progress"} +
                            sampling + rest);
                ASSERT_EQ(r.status, 0) << testing::PrintToString(chain) << tokens << r.err;
                EXPECT_EQ(Json::parse(r.out).size(), 2u);
            }
        }
    }
}

// A signal ends the sequence at any point of a round. The output is a prefix of the whole text, and can be resumed. The
// slow link ensures that the signal arrives before the end.
void expect_resumed_after_a_signal(const Words& chain, const Words& sampling) {
    constexpr int kLong = 500;
    const TempFolder folder;
    const Words flags = sampling + chain + Words{"--ignore-eos"}, slow = {"--kv-on-chip", "0", "--link-gbps", "0.05"};
    const std::string whole = trireme(generate(flags, kLong)).out, snapshot = folder / "s.h5";
    for (const auto& [status, more] : {std::pair{128 + SIGTERM, Words{}}, {75, Words{"--save-kv", snapshot}}}) {
        const ProcessResult r = trireme(generate(flags + slow + more, kLong), {.signal_at_output = SIGTERM});
        ASSERT_EQ(r.status, status) << testing::PrintToString(chain) << r.err;
        const std::string said = r.out.substr(0, r.out.find_last_not_of('\n') + 1);
        EXPECT_LT(said.size(), whole.size() / 2);
        EXPECT_THAT(whole, testing::StartsWith(said)) << testing::PrintToString(chain);
    }
    const ProcessResult on = trireme(generate(flags + Words{"--load-kv", snapshot}, kLong));
    ASSERT_EQ(on.status, 0) << testing::PrintToString(chain) << on.err;
    EXPECT_EQ(on.out, whole) << testing::PrintToString(chain);
}

TEST(EndedRounds, ASignalInsideARoundLeavesTheTextSoFar) {
    for (const Words& chain : chains()) {
        for (const Words& sampling : {kGreedy, kSampled}) expect_resumed_after_a_signal(chain, sampling);
    }
}

TEST(EndedRounds, StopOnTwoRanks) {
    for (const Words& chain : chains()) {
        for (const Words& sampling : {kGreedy, kSampled}) expect_ends(chain, sampling, /*ranks=*/2);
    }
}

TEST(EndedRounds, SamplesAfterOneThatEndedAreWhatTheyAreAlone) {
    for (const Words& chain : chains()) {
        const Words flags = kSampled + chain + Words{"--num-samples", "3", "--print", "ids"};
        const ProcessResult whole = trireme(generate(flags)), cut = trireme(generate(flags + Words{"--stop", "e"}));
        ASSERT_EQ(whole.status, 0) << whole.err;
        ASSERT_EQ(cut.status, 0) << testing::PrintToString(chain) << cut.err;
        const std::vector<std::string> all = lines_of(whole.out), ended = lines_of(cut.out);
        ASSERT_EQ(ended.size(), 3u);
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_LT(ended[i].size(), all[i].size());
            EXPECT_THAT(all[i], testing::StartsWith(ended[i].substr(0, ended[i].size() - 1)))
                << testing::PrintToString(chain);
        }
    }
}

TEST(EndedRounds, ASnapshotOfAnEndedTextIsResumedByOtherStopRules) {
    for (const Words& chain : chains()) {
        for (const Words& sampling : {kGreedy, kSampled}) {
            const TempFolder folder;
            const Words flags = sampling + chain + Words{"--report-json", folder / "r.json", "--force"};
            const std::string whole = the_text(flags);
            const std::string stop = whole.substr(whole.size() / 2, 3);
            const ProcessResult ended = trireme(generate(flags + Words{"--stop", stop, "--save-kv", folder / "s.h5"}));
            ASSERT_EQ(ended.status, 0) << testing::PrintToString(chain) << ended.err;
            EXPECT_EQ(ended.out, whole.substr(0, whole.find(stop)));
            EXPECT_EQ(Json::parse(read_file(folder / "r.json"))["samples"][0]["stop"], "stop_string");
            const ProcessResult on = trireme(generate(flags + Words{"--load-kv", folder / "s.h5"}));
            EXPECT_EQ(on.status, 0) << testing::PrintToString(chain) << on.err;
            // The sequence continues; at temperature > 0 the rounds, and so the tokens, differ.
            if (sampling == kGreedy) {
                EXPECT_EQ(on.out, whole) << testing::PrintToString(chain);
            }
            EXPECT_THAT(on.out, testing::StartsWith(whole.substr(0, whole.find(stop) + stop.size())));
        }
    }
}

}  // namespace
}  // namespace trireme::test
