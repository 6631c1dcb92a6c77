#pragma once
/// What a run was asked for, typed. Defaults are here and nowhere else: --help prints them from a fresh Options.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/draft_length.h"
#include "decode/sampling.h"
#include "launch/flags/chain_spec.h"
#include "model/passes.h"
#include "offload/plan.h"
#include "offload/policies/bounded_shape.h"
#include "runtime/atomic_file.h"
#include "runtime/dtype.h"
#include "runtime/log.h"

namespace trireme {

enum class Command : unsigned {
    kGenerate = 1,
    kTokenize = 2,
    kScore = 4,
    kPlan = 8,
    kDoctor = 16,
    kBench = 32,
    kBatch = 64,
    kConvert = 128,
    kReport = 256
};

enum class PromptFrom { kNowhere, kText, kFile, kIds, kData, kSession };
enum class Print { kText, kIds };
enum class Table { kMd, kCsv, kJson, kJsonl };

/// One of a bench's: a chain, or a policy, and, perhaps, a residency of its own.
struct Mode {
    std::string name;   // as it was written: "none@12"
    std::string chain;  // as --spec takes it
    KvPolicy policy = KvPolicy::kFull;
    std::optional<int64_t> kv_on_chip = {};  // nothing: as --kv-on-chip says
};

/// Which tokens KV heads keep, as flags say it.
struct BoundedOptions {
    KvPolicy policy = KvPolicy::kFull;
    int64_t window = 0;       // tokens; 0: as follows
    double window_share = 0;  // of the prompt; 0: as `window` says
    int64_t heavy = -1;       // tokens; -1: half of the window
    int64_t sinks = -1;       // tokens; -1: the policy's own number
    bool rolling = false;
    HeadsBy heads = HeadsBy::kMean;
    std::optional<bool> one_set = {};  // for all KV heads of a layer; nothing: the policy's own rule
    bool half_scores = false;
    double decay = 1;
    bool normalise = false;
    int64_t observe = 64, pool = 5, every = 64;
    int64_t chunk = 0;  // tokens; 0: a prompt is read in one

    static constexpr int64_t kWindow = 256;            // of a policy: the cookbook's
    static constexpr int64_t kProposingWindow = 1024;  // of --spec h2o
    int64_t window_or(int64_t fallback) const { return window == 0 ? fallback : window; }
};

/// Which texts of a data set: put into an order, some left out, some taken.
struct DataChoice {
    std::optional<uint64_t> shuffle = {};  // the order's seed; nothing: as they come
    int64_t skip = 0, limit = 0;           // texts; limit 0: all
};

struct Options {
    std::string config;  // an INI file

    std::string model;      // a folder or a .gguf file
    std::string tokenizer;  // where the tokenizer is instead; empty: with the model
    PromptFrom prompt_from = PromptFrom::kNowhere;
    std::string prompt;               // the text, or the path of its file or of its ids; "-" is stdin
    std::optional<bool> add_special;  // nothing: tokenize does not, generate and score do

    int64_t n_predict = -1;  // tokens; -1: until a stop or the end of the context
    int64_t num_samples = 1;
    static constexpr int64_t kMostParallel = -1;  // as many as there is memory for
    static constexpr int64_t kParallelLimit = 4096;
    std::vector<int64_t> parallel = {1};  // texts that are decoded in one forward; of a bench several such numbers
    bool snapshots() const { return !save_kv.empty() || !load_kv.empty(); }
    bool side_by_side() const { return parallel != std::vector<int64_t>{1}; }
    bool ignore_eos = false;
    std::vector<std::string> stop;
    Print print = Print::kText;

    std::optional<uint64_t> seed = 0;  // nothing: one is to be drawn
    SamplingParams sampling;

    int64_t ctx_size = 0;        // tokens; 0: the model's
    std::optional<DType> dtype;  // nothing: the checkpoint's
    std::string layer_map;       // another than the checkpoint's; empty: its own
    bool wide_window = false;    // layers with a sliding window see one token more
    Passes passes;               // of prompts over layers that read later ones
    DType cache_type_k = DType::kF16, cache_type_v = DType::kF16;

    int64_t kv_on_chip = PlanInput::kAuto;  // layers, or kAuto, or kAll
    int64_t kv_ring = 4;
    int64_t device_memory = 0, host_memory = 0;  // bytes a rank may use; 0: what is free
    Link link;                                   // emulated, or the one that a plan is for; 0 GB/s: none
    int64_t ranks = 0;                           // a plan's; 0: as many as were started
    double device_gbps = 0, host_gbps = 0;       // of a plan's machine
    double device_tflops = 0, reduce_us = 0, reduce_gbps = 0;
    bool kv_verify = false;
    BoundedOptions bounded;

    ChainSpec spec;
    int64_t draft_tokens = DraftLength::kAuto;        // proposed before they are checked, or kAuto; of a tree its depth
    int64_t inner_draft_tokens = DraftLength::kAuto;  // the same, to a level in between
    static int64_t most_draft_tokens(int64_t n) { return n == DraftLength::kAuto ? DraftLength::kMost : n; }
    std::vector<double> accept_rates;          // of a plan's levels that check, the whole model's first
    std::string spec_costs;                    // a report whose costs are taken; empty: they are measured
    int64_t tree_size = 32;                    // tokens of a tree
    static constexpr int64_t kTreeDepth = 16;  // with kAuto: trees of 63 tokens hardly grow deeper
    std::string model_draft;                   // a folder or a .gguf file; empty: none
    int64_t draft_window = 256;                // tokens that the draft sees
    int64_t retrieval_budget = 0;              // tokens; 0: kDefaultBudget where a chain retrieves
    int64_t retrieval_chunk = 8;               // tokens
    int64_t reselect = 1;                      // rounds; RetrievalShape::kNever
    int64_t reselect_queries = 1;              // whose mean chooses

    static constexpr int64_t kBenchTokens = 256;                    // that a bench generates without -n: TriForce's
    std::vector<Mode> modes = {{.name = "none", .chain = "none"}};  // of a bench
    int64_t repetitions = 5;                                        // llama-bench's
    int64_t prefill = 0;                                            // tokens of each text; 0: all of it
    std::string data;                                               // a file or a folder of texts; a store of ids
    std::string dataset;                                            // TriForce's name of one; empty: none
    Table table = Table::kMd;
    bool require_exact = false;

    std::string input,
        output_path;       // of a batch: the requests, and what becomes of them; of convert: the new folder or file
    std::string tokens;    // of convert: texts that become token ids; empty: a model is converted
    DataChoice choice;     // of what --data or --input names
    bool average = false;  // of convert: an owner has the mean of its readers' keys and values
    struct Scoring {
        int64_t window = 0, stride = 0;  // tokens; 0: not said
        bool llama_rule = false;         // llama-perplexity's chunks instead of Hugging Face's windows
        bool strict = false;             // the first pair that cannot be scored ends the run
        bool in_windows() const { return window > 0 || stride > 0 || llama_rule; }
    } score;
    /// Whether score reads pairs of a context and a continuation, and no whole texts.
    bool scores_pairs() const { return prompt_from == PromptFrom::kData && !score.in_windows(); }
    std::string rouge;  // the key of what texts are compared with; empty: they are not

    std::string device = "auto";
    bool graphs = true;           // decode steps as graphs, where the device has them
    int64_t threads = 0;          // a rank; 0: its share of the cores
    bool bind = true;             // widen the binding to the rank's share of the cores
    int64_t tensor_parallel = 0;  // number of ranks that there must be; 0: any

    std::string save_kv, load_kv;      // files; empty: none
    int64_t checkpoint_every = 0;      // tokens; 0: never
    double grace_s = 1;                // from SIGTERM to SIGKILL
    std::string record;                // a file of run records; empty: the run is not recorded
    std::vector<std::string> records;  // of report: such files
    std::string report_json, dump_logits, trace,
        kv_dump;  // files; empty: none. report_json "-": stdout, and nothing else there
    bool report_to_stdout() const { return report_json == "-"; }
    bool force = false;  // outputs that exist are overwritten
    IfThere old_outputs() const { return force ? IfThere::kReplace : IfThere::kRefuse; }
    bool no_progress = false;
    log::Level log_level = log::Level::kInfo;
};

}  // namespace trireme
