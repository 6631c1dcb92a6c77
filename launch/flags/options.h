#pragma once
/// Options of a run: the parsed values of all flags. Defaults are here and nowhere else: --help prints them from a
/// fresh Options. docs/reference/command-line.md describes the flags.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/gamma_controller.h"
#include "decode/sampling.h"
#include "launch/flags/chain_spec.h"
#include "model/checkpoint/file_type.h"
#include "model/passes.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/plan/plan.h"
#include "runtime/atomic_file.h"
#include "runtime/dtype.h"
#include "runtime/log.h"

namespace trireme {

/// A set of commands is a sum of these bits.
enum class Command : unsigned {
    kGenerate = 1,
    kTokenize = 2,
    kScore = 4,
    kPlan = 8,
    kDoctor = 16,
    kBench = 32,
    kBatch = 64,
    kConvert = 128,
    kReport = 256,
    kChat = 512,
    kPipe = 1024,
    kEvaluate = 2048
};

/// The flag that names the prompt: none, --prompt, --file, --prompt-ids, --data or --dataset, --session.
enum class PromptFrom { kNowhere, kText, kFile, kIds, kData, kSession };
enum class Print { kText, kIds, kPrompt };
/// The form of streamed tiles in host memory and on the link.
enum class KvWire { kRaw, kCoded, kAuto };
/// The format of bench's table.
enum class Table { kMd, kWide, kCsv, kJson, kJsonl };

/// A mode of bench: a chain or an eviction policy, optionally with its own residency.
struct Mode {
    std::string name;                        // as it was written: "none@12"
    std::string chain;                       // as --spec takes it; "none" with a policy
    KvPolicy policy = KvPolicy::kFull;       // kFull: a chain
    std::optional<int64_t> kv_on_chip = {};  // as Options::kv_on_chip; not set: --kv-on-chip applies
    int64_t budget = 0;                      // tokens of the policy; 0: --kv-window applies
};

/// Options of KV cache eviction: which tokens a KV head retains.
struct EvictionOptions {
    KvPolicy policy = KvPolicy::kFull;
    int64_t budget = 0;       // in tokens; 0: use budget_share
    double budget_share = 0;  // as a fraction of the prompt; 0: use budget
    int64_t heavy = -1;       // tokens; -1: half of the budget
    int64_t sinks = -1;       // tokens; -1: the policy's own number
    bool rolling = false;     // RoPE positions are counted among the retained tokens
    HeadsBy heads = HeadsBy::kMean;
    std::optional<bool> one_set = {};  // all KV heads of a layer retain one set; not set: the policy's rule
    bool half_scores = false;          // scores are f16
    double decay = 1;                  // factor of accumulated scores per query
    bool normalise = false;            // scores are divided by the number of queries that saw the token
    // Recent tokens whose queries score the others; smoothing width for scores, odd; decode steps between re-scorings.
    int64_t observe = 64, pool = 5, every = 64;
    int64_t chunk = 0;  // tokens; 0: the prompt is read as one chunk

    static constexpr int64_t kBudget = 256;            // default budget of a policy: that of the H2O cookbook
    static constexpr int64_t kProposingBudget = 1024;  // default budget of --spec h2o
    /// Whether all KV heads of a layer retain one set under `of`: by the flag, or else by TOVA's rule.
    bool keeps_one_set(KvPolicy of) const { return one_set.value_or(row_of(of).one_set); }
    /// The budget in tokens, or `fallback` if none is given; ignores budget_share.
    int64_t budget_or(int64_t fallback) const { return budget == 0 ? fallback : budget; }
};

/// The selection of texts from a data set: shuffled first, then skipped, then limited.
struct DataChoice {
    std::optional<uint64_t> shuffle = {};  // the seed of the order; not set: the order of the files
    int64_t skip = 0, limit = 0;           // texts; limit 0: all
};

struct Options {
    std::string config;  // an INI file

    std::string model;      // a folder or a .gguf file
    std::string tokenizer;  // a folder or file; empty: the model's
    PromptFrom prompt_from = PromptFrom::kNowhere;
    std::string prompt;               // the text, or the path of a file with text or ids; "-" is stdin
    std::optional<bool> add_special;  // not set: tokenize adds none, generate and score do
    bool chat = false;                // the chat template turns the prompt, a user's message, into the text to continue
    std::string system;               // the system message before it; empty: none

    int64_t n_predict = -1;  // tokens; -1: until a stop or the end of the context; 0: only with Print::kPrompt
    int64_t num_samples = 1;
    static constexpr int64_t kMostParallel = -1;  // as many as memory allows
    static constexpr int64_t kParallelLimit = 4096;
    std::vector<int64_t> parallel = {1};  // sequences decoded in one forward; bench takes several such numbers
    /// The path that names the tokenizer and the chat template.
    const std::string& tokenizer_path() const { return tokenizer.empty() ? model : tokenizer; }
    bool snapshots() const { return !save_kv.empty() || !load_kv.empty(); }
    /// Whether --parallel is given, with another value than 1.
    bool side_by_side() const { return parallel != std::vector<int64_t>{1}; }
    bool ignore_eos = false;
    std::vector<std::string> stop;  // stop strings
    Print print = Print::kText;

    std::optional<uint64_t> seed = 0;  // not set: a seed is drawn
    SamplingParams sampling;
    std::vector<double> temperatures;  // of bench, one table for all; empty: sampling.temperature

    int64_t ctx_size = 0;                       // tokens; 0: the model's
    std::optional<DType> dtype;                 // not set: the checkpoint's
    std::optional<uint64_t> random_weights;     // convert: the seed; not set: the model's own weights
    std::optional<ActivationType> activations;  // of products of quantised weights; not set: the fastest
    std::string layer_map;                      // replaces the checkpoint's map; empty: the checkpoint's
    bool wide_window = false;                   // layers with a sliding window see one token more
    Passes passes;                              // over prompts, where layers read later layers
    DType cache_type_k = DType::kF16, cache_type_v = DType::kF16;

    int64_t kv_on_chip = PlanInput::kAuto;       // layers, or kAuto, or kAll
    int64_t kv_ring = 4;                         // ring slots that streamed tiles pass through
    int64_t device_memory = 0, host_memory = 0;  // bytes per rank; 0: what is free
    Link link;                                   // emulated, or assumed by a plan; 0 GB/s: none
    // plan: assumed ranks; 0: tensor_parallel, else the started ranks. convert: ranks that an .h5 file is laid out for.
    int64_t ranks = 0;
    // The machine that a plan assumes: GB/s, 10^12 operations per second, microseconds per all-reduce. 0: not known.
    double device_gbps = 0, host_gbps = 0;
    double device_tflops = 0, reduce_us = 0, reduce_gbps = 0;
    KvWire kv_wire = KvWire::kAuto;
    bool kv_verify = false;  // compare digests of streamed tiles before and after each copy
    EvictionOptions eviction;

    ChainSpec spec;
    int64_t gamma = GammaController::kAuto;        // kAuto, or tokens of drafts for the full model; a tree's depth
    int64_t gamma_inner = GammaController::kAuto;  // kAuto, or tokens of drafts for inner verifiers
    /// The most tokens of a draft for this gamma.
    static int64_t most_gamma(int64_t n) { return n == GammaController::kAuto ? GammaController::kMost : n; }
    std::vector<double> accept_rates;  // assumed by a plan, one per verifier, the full model's first
    std::string spec_costs;            // a report whose measured costs are used; empty: they are measured
    int64_t tree_size = 32;            // tokens of a tree
    int64_t siblings = GammaController::kAutoSiblings;  // of each token drafted for the full model; or kAutoSiblings
    static constexpr int64_t kTreeDepth = 16;           // with gamma kAuto: trees of 63 tokens are hardly deeper
    std::string suffix_corpus;                          // a file or a folder of texts; empty: none
    std::string model_draft;                            // a folder or a .gguf file; empty: none
    int64_t draft_window = 256;                         // tokens that the draft model sees
    int64_t retrieval_budget = 0;                       // tokens; 0: kDefaultBudget if a chain retrieves
    int64_t retrieval_chunk = 8;                        // tokens
    int64_t reselect = 1;                               // rounds between selections; or RetrievalShape::kNever
    int64_t reselect_queries = 1;                       // number of queries whose mean selects

    static constexpr int64_t kBenchTokens = 256;                    // as TriForce: what bench generates without -n
    std::vector<Mode> modes = {{.name = "none", .chain = "none"}};  // of bench
    int64_t repetitions = 5;                                        // as llama-bench
    int64_t prefill = 0;                                            // tokens read of each text; 0: all
    std::string data;                                               // a file or folder of texts, or a store of ids
    std::string dataset;                                            // TriForce's name of a data set; empty: none
    std::vector<std::string> datasets;  // of bench, one table for all: `dataset` is the first
    Table table = Table::kMd;
    bool require_exact = false;  // bench fails unless every mode has the tokens of mode none

    std::string input,
        output_path;                     // batch: requests and results; convert: the new folder or file
    std::string tokens;                  // convert: texts to tokenise; empty: a model is converted
    DataChoice choice;                   // among the texts of --data or --input
    const FileType* quantise = nullptr;  // convert: types of blocks for matrices; null: none
    bool average = false;                // convert: an owner layer gets the mean of its readers' keys and values
    struct Scoring {
        int64_t window = 0, stride = 0;  // tokens; 0: not set
        bool llama_rule = false;         // llama-perplexity's chunks instead of Hugging Face's windows
        bool strict = false;             // the first pair that cannot be scored ends the run
        bool in_windows() const { return window > 0 || stride > 0 || llama_rule; }
    } score;
    /// Whether score reads pairs of context and continuation instead of whole texts.
    bool scores_pairs() const { return prompt_from == PromptFrom::kData && !score.in_windows(); }
    struct Evaluation {
        std::vector<std::string> suites, tasks;  // no tasks: all
        std::vector<int64_t> lengths;            // tokens
        int64_t shard = 0, shards = 1;           // the part of the cells to run
    } evaluation;
    std::string rouge;  // the key of the reference texts; empty: no ROUGE

    std::string device = "auto";
    bool graphs = true;           // decode steps run as graphs if the device supports them
    int64_t threads = 0;          // per rank; 0: the rank's share of the cores
    bool bind = true;             // widen the rank's binding to its share of the CPU cores
    int64_t tensor_parallel = 0;  // required number of ranks; 0: any

    std::string save_kv, load_kv;      // files; empty: none
    int64_t checkpoint_every = 0;      // tokens; 0: never
    double grace_s = 1;                // from SIGTERM to SIGKILL
    std::string record;                // a file for run records; empty: none
    std::vector<std::string> records;  // report: files that --record has written
    std::string report_json, dump_logits, trace,
        kv_dump;  // files; empty: none. report_json "-": the report goes to stdout, and nothing else does
    bool report_to_stdout() const { return report_json == "-"; }
    bool force = false;  // overwrite existing outputs
    /// What to do with an output file that exists.
    IfThere old_outputs() const { return force ? IfThere::kReplace : IfThere::kRefuse; }
    bool no_progress = false;
    log::Level log_level = log::Level::kInfo;
};

}  // namespace trireme
