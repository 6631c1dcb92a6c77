// SIGINT and SIGTERM before the first token: in a prefill whose layers take half a minute each.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kLayers = 2, kDim = 64, kHeads = 32, kHeadDim = 128, kFfn = 32, kVocab = 64, kTokens = 2000;

/// A model of zeros that has much KV and little else: 32 MB a layer for the prompt, at 1 MB/s.
class SlowModel {
  public:
    SlowModel() {
        const json config = {{"architectures", {"LlamaForCausalLM"}},
                             {"model_type", "llama"},
                             {"hidden_size", kDim},
                             {"intermediate_size", kFfn},
                             {"num_hidden_layers", kLayers},
                             {"num_attention_heads", kHeads},
                             {"num_key_value_heads", kHeads},
                             {"head_dim", kHeadDim},
                             {"vocab_size", kVocab},
                             {"max_position_embeddings", 4096},
                             {"rms_norm_eps", 1e-5},
                             {"rope_theta", 1e4},
                             {"hidden_act", "silu"},
                             {"tie_word_embeddings", true},
                             {"eos_token_id", 2}};
        write_file(folder_ / "config.json", config.dump());
        add("model.embed_tokens.weight", {kVocab, kDim});
        add("model.norm.weight", {kDim});
        for (int64_t l = 0; l < kLayers; ++l) {
            const std::string layer = "model.layers." + std::to_string(l) + ".";
            for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
                add(layer + norm + ".weight", {kDim});
            for (const char* x : {"q", "k", "v"})
                add(layer + "self_attn." + x + "_proj.weight", {kHeads * kHeadDim, kDim});
            add(layer + "self_attn.o_proj.weight", {kDim, kHeads * kHeadDim});
            for (const char* x : {"gate", "up"}) add(layer + "mlp." + x + "_proj.weight", {kFfn, kDim});
            add(layer + "mlp.down_proj.weight", {kDim, kFfn});
        }
        const std::string header = header_.dump();
        uint64_t size = header.size();
        write_file(folder_ / "model.safetensors",
                   std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + std::string(bytes_, '\0'));
        write_file(folder_ / "ids.json", json(std::vector<int>(kTokens, 5)).dump());
    }
    Words request(const std::string& command = "generate") const {
        Words words = {command,        "-m", folder_.path(), "--prompt-ids", folder_ / "ids.json", "-t", "1",
                       "--kv-on-chip", "0",  "--link-gbps",  "0.001",        "--no-progress"};
        if (command == "generate") {
            words.insert(words.end(), {"-n", "2", "--print", "ids", "--report-json", folder_ / "report.json"});
        }
        return words;
    }
    /// Of each rank that was started by writes_pids.
    std::string pid_file(int rank) const { return folder_ / ("pid" + std::to_string(rank)); }
    bool has_report() const { return !testing::Value(folder_.names(), testing::Not(testing::Contains("report.json"))); }

  private:
    void add(const std::string& name, const std::vector<int64_t>& shape) {
        int64_t bytes = 2;
        for (const int64_t d : shape) bytes *= d;
        header_[name] = {
            {"dtype", "F16"}, {"shape", shape}, {"data_offsets", {bytes_, bytes_ + static_cast<size_t>(bytes)}}};
        bytes_ += static_cast<size_t>(bytes);
    }

    TempFolder folder_;
    nlohmann::ordered_json header_;
    size_t bytes_ = 0;
};

/// Log lines that tell of a signal. What else a run says of it is mpirun's.
Words signal_lines(const ProcessResult& r) {
    Words lines;
    for (const std::string& line : lines_of(r.err)) {
        if (line.find("s] stopped by ") != std::string::npos) lines.push_back(line);
    }
    return lines;
}

constexpr double kSoon = 15;  // s: long before a layer is through
const std::string kBegun = "compute thread";

void expect_stopped(const ProcessResult& r, int status, const SlowModel& model) {
    EXPECT_EQ(r.status, status) << r.err;
    EXPECT_THAT(signal_lines(r), SizeIs(1)) << r.err;
    EXPECT_THAT(error_lines(r), IsEmpty()) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(model.has_report());
}

TEST(SignalInAPrefill, EndsARankAtOnce) {
    const SlowModel model;
    for (const int number : {SIGINT, SIGTERM}) {
        for (const char* command : {"generate", "score"}) {
            const ProcessResult r = trireme(
                model.request(command), {.timeout_s = kSoon, .signal_at_output = number, .signal_at_error = kBegun});
            expect_stopped(r, 128 + number, model);
            EXPECT_THAT(r.err, HasSubstr("stopped by signal " + std::to_string(number) + ": "));
        }
    }
}

// Whoever gets it: the first rank, another one.
TEST(SignalInAPrefill, ToOneRankEndsAll) {
    for (const int rank : {0, 1}) {
        for (const int number : {SIGINT, SIGTERM}) {
            const SlowModel model;
            std::string line = "echo $$ > " + model.pid_file(0).substr(0, model.pid_file(0).size() - 1) +
                               "$OMPI_COMM_WORLD_RANK; exec '" TRIREME_PROGRAM "'";
            for (const std::string& word : model.request()) line += " '" + word + "'";
            const ProcessResult r =
                run_mpirun({TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "2", "bash", "-c", line},
                           {.timeout_s = kSoon,
                            .signal_at_output = number,
                            .signal_at_error = kBegun,
                            .signal_to = model.pid_file(rank)});
            expect_stopped(r, 128 + number, model);
        }
    }
}

// mpirun passes on what it gets, after a second, and does not always show what ranks say then.
TEST(SignalInAPrefill, ToTheLauncherEndsAll) {
    for (const int number : {SIGINT, SIGTERM}) {
        const SlowModel model;
        const ProcessResult r =
            trireme_on(2, model.request(), {.timeout_s = kSoon, .signal_at_output = number, .signal_at_error = kBegun});
        EXPECT_NE(r.status, 0);
        EXPECT_LE(signal_lines(r).size(), 1u) << r.err;
        EXPECT_THAT(error_lines(r), IsEmpty()) << r.err;
    }
}

}  // namespace
}  // namespace trireme::test
