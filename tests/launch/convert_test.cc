// trireme convert: a folder appears complete or not at all, however the run ends.

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/big_model.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kPart = "out.trireme-part";

class ConvertCommand : public testing::Test {
  protected:
    static Words command(const std::string& from, const std::string& to) { return {"convert", "-m", from, "-o", to}; }
    std::string out() const { return folder_ / "out"; }
    std::string part() const { return folder_ / kPart; }
    std::vector<std::string> in(const std::string& name) const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder_ / name))
            names.push_back(entry.path().filename());
        return names;
    }

    TempFolder folder_;
};

// Every form of the model has the same weights; another seed gives others.
TEST_F(ConvertCommand, MakesAModelOfRandomWeightsFromAConfig) {
    std::filesystem::create_directory(folder_ / "from");
    std::filesystem::copy_file(model() + "/config.json", folder_ / "from/config.json");
    std::filesystem::copy_file(model() + "/tokenizer.model", folder_ / "from/tokenizer.model");
    const auto make = [&](const std::string& from, const std::string& to, const std::string& seed) {
        const ProcessResult r = trireme(command(folder_ / from, folder_ / to) + Words{"--random", seed});
        EXPECT_EQ(r.status, 0) << r.err;
    };
    const auto said = [&](const std::string& name) {
        const ProcessResult r = trireme({"generate", "-m", folder_ / name, "-p", "In the beginning", "-n", "12",
                                         "--temp", "0", "--print", "ids", "--ignore-eos", "--dtype", "f32"});
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    };
    make("from", "a", "7");
    make("from/config.json", "b", "7");
    make("from", "c.h5", "7");
    make("from", "d.gguf", "7");
    make("from", "e", "8");
    EXPECT_EQ(read_file(folder_ / "a/model.safetensors"), read_file(folder_ / "b/model.safetensors"));
    EXPECT_EQ(said("b"), said("a"));
    EXPECT_EQ(said("c.h5"), said("a"));
    EXPECT_EQ(said("d.gguf"), said("a"));
    EXPECT_NE(said("e"), said("a"));
    EXPECT_THAT(trireme(command(folder_ / "none", out()) + Words{"--random", "1"}).err, HasSubstr("none"));
}

// The written weights are plain, so config.json must not say that they are packed.
TEST_F(ConvertCommand, WidensPackedWeights) {
    const std::string model = std::string(TRIREME_TEST_DATA) + "/packed/awq";
    std::ofstream(folder_ / "ids.json") << "[5, 6, 7, 8]";
    const auto ids = [&](const std::string& from) {
        const ProcessResult r = trireme({"generate", "-m", from, "--prompt-ids", folder_ / "ids.json", "-n", "8",
                                         "--temp", "0", "--print", "ids", "--ignore-eos", "--dtype", "f32"});
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    };
    for (const std::string& to : {out(), out() + ".h5"}) {
        Words words = command(model, to);
        words.insert(words.end(), {"--dtype", "f32"});
        const ProcessResult made = trireme(words);
        ASSERT_EQ(made.status, 0) << made.err;
        EXPECT_EQ(ids(to), ids(model)) << to;
    }
    std::ifstream config(out() + "/config.json");
    const std::string text((std::istreambuf_iterator<char>(config)), {});
    EXPECT_THAT(text, HasSubstr("hidden_size"));
    EXPECT_THAT(text, testing::Not(HasSubstr("quantization_config")));
}

TEST_F(ConvertCommand, LeavesNothingAfterASignal) {
    make_big_model(folder_ / "big");
    const ProcessOptions options = {.signal_at_error = "writing 11 tensors"};
    for (const int number : {SIGINT, SIGTERM}) {
        for (const int ranks : {1, 2}) {
            ProcessOptions at_once = options;
            at_once.signal_at_output = number;
            const Words words = command(folder_ / "big", out());
            const ProcessResult r = ranks == 1 ? trireme(words, at_once) : trireme_on(ranks, words, at_once);
            EXPECT_NE(r.status, 0);
            if (ranks == 1) {  // mpirun has its own exit code, and does not always show the output of ranks
                EXPECT_EQ(r.status, 128 + number) << r.err;
                EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "signal " + std::to_string(number)));
            }
            EXPECT_THAT(error_lines(r), IsEmpty()) << r.err;
            EXPECT_THAT(folder_.names(), ElementsAre("big"));
        }
    }
}

// A run that is killed cannot clean up; the next one does.
TEST_F(ConvertCommand, ClearsWhatAKilledRunHasLeft) {
    make_big_model(folder_ / "big");
    const ProcessResult killed = trireme(command(folder_ / "big", out()),
                                         {.signal_at_output = SIGKILL, .signal_at_error = "writing 11 tensors"});
    EXPECT_EQ(killed.status, 128 + SIGKILL);
    EXPECT_THAT(folder_.names(), ElementsAre("big", kPart));

    const ProcessResult next = trireme(command(model(), out()));

    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_THAT(folder_.names(), ElementsAre("big", "out"));
    EXPECT_THAT(in("out"), Contains("config.json"));
    EXPECT_EQ(trireme({"generate", "-m", out(), "-p", "And God said", "-n", "5", "--temp", "0"}).out,
              trireme({"generate", "-m", model(), "-p", "And God said", "-n", "5", "--temp", "0"}).out);
}

TEST_F(ConvertCommand, LeavesAlone) {
    const auto refused = [&](const std::string& words) {
        const ProcessResult r = trireme(command(model(), out()));
        EXPECT_EQ(r.status, 73) << r.err;
        EXPECT_THAT(error_lines(r), SizeIs(1)) << r.err;
        EXPECT_THAT(r.err, HasSubstr(words));
        EXPECT_THAT(folder_.names(), ElementsAre(kPart));
    };

    // Another run is writing this folder.
    std::filesystem::create_directory(part());
    write_file(part() + "/config.json", "theirs");
    const int theirs = ::open(part().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(::flock(theirs, LOCK_EX | LOCK_NB), 0);
    refused("another conversion");
    EXPECT_EQ(read_file(part() + "/config.json"), "theirs");
    ::close(theirs);

    // No conversion writes this file. Then files that one could have written are not removed either.
    write_file(part() + "/notes.txt", "mine");
    refused("'notes.txt'");
    EXPECT_THAT(in(kPart), testing::UnorderedElementsAre("config.json", "notes.txt"));
    std::filesystem::remove(part() + "/notes.txt");
    std::filesystem::create_directory(part() + "/tokenizer.json");
    refused("'tokenizer.json'");
    std::filesystem::remove(part() + "/tokenizer.json");
    std::filesystem::create_symlink(model() + "/config.json", part() + "/model.safetensors");
    refused("'model.safetensors'");
    std::filesystem::remove_all(part());

    // A symbolic link, and then a file.
    const TempFolder elsewhere;
    std::filesystem::create_directory_symlink(elsewhere.path(), part());
    refused("cannot be opened");
    std::filesystem::remove(part());
    write_file(part(), "mine");
    refused("cannot be opened");
    EXPECT_EQ(read_file(part()), "mine");
}

TEST_F(ConvertCommand, ReplacesNoFolder) {
    std::filesystem::create_directory(out());
    const ProcessResult r = trireme(command(model(), out()));
    EXPECT_EQ(r.status, 73);
    EXPECT_THAT(r.err, HasSubstr(out() + ": exists"));
    EXPECT_THAT(folder_.names(), ElementsAre("out"));
    EXPECT_THAT(in("out"), IsEmpty());
}

}  // namespace
}  // namespace trireme::test
