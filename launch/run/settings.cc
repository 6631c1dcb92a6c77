#include "launch/run/settings.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "generated/commit.h"
#include "launch/flags/flags.h"
#include "model/files/store/digest.h"

namespace trireme {
namespace {

constexpr const char* kCorpusIds = "corpus ids";

// Digest of name, type, shape and first row of every tensor. A base model and its finetune differ only in values.
std::string fingerprint(const WeightSource& source) {
    std::string text;
    std::vector<float> row;
    for (const TensorInfo& t : source.tensors()) {
        const bool vector = t.shape.rank() == 1;
        row.resize(static_cast<size_t>(t.shape[vector ? 0 : 1]));
        const auto n = static_cast<int64_t>(row.size());
        source.read(t.name, 0, 0, HostTensor(row.data(), DType::kF32, vector ? Shape{n} : Shape{1, n}));
        text += fmt::format("{} {} {}\n", t.name, name_of(t.type), t.shape);
        text.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    }
    return hex_digest(text);
}

// Digest of the pieces and their special flags. If these differed, ranks would stop at different tokens.
std::string fingerprint(const Tokenizer& tokenizer) {
    std::string text;
    for (int32_t id = 0; id < tokenizer.vocab(); ++id) {
        text += fmt::format("{}{}\n", tokenizer.piece(id), tokenizer.is_special(id) ? " special" : "");
    }
    return hex_digest(text);
}

// Adds the configuration in the files, except the tensors' shapes and rows.
void add_config(const LlamaConfig& c, int64_t ctx_size, const std::string& whose, KeyValues& settings) {
    const auto add = [&](const char* name, std::string value) {
        settings.emplace_back(whose + name, std::move(value));
    };
    const RopeConfig& r = c.rope;
    // Llama without biases has no entry: snapshots of before there were other families remain valid.
    const std::string biases = fmt::format("{}{}", c.qkv_bias ? ", q k v biases" : "", c.o_bias ? ", o bias" : "");
    if (c.family->qk_norm || c.family->fused || !biases.empty()) {
        add("family", fmt::format("{}{}", c.family->model_type, biases));
    }
    add("heads", fmt::format("{} of {}, {} KV", c.n_heads, c.head_dim, c.n_kv_heads));
    add("context", fmt::format("{}", c.context));
    add("rms_norm_eps", fmt::format("{}", c.norm_eps));
    add("rope_theta", fmt::format("{}", r.theta));
    add("rope_scaling", std::string(name_of(r.scaling)));
    const std::vector<double> numbers = {r.factor,          static_cast<double>(r.original_context),
                                         r.beta_fast,       r.beta_slow,
                                         r.truncate + 0.,   r.attention_factor,
                                         r.low_freq_factor, r.high_freq_factor};
    add("rope_numbers", fmt::format("{}", fmt::join(numbers, " ")));
    add("rope_factors", fmt::format("{}", fmt::join(r.factors, " ")));
    if (r.dim(c.head_dim) != c.head_dim) add("rope_rotated", fmt::format("{}", r.rotary_dim));
    if (r.scaling == RopeScaling::kLongrope) {
        add("longrope", (ctx_size > 0 ? ctx_size : c.context) > r.original_context ? "long" : "short");
    }
    add("layer_map", c.layer_map.text());
    add("sharing",
        fmt::format("{} passes, window {}{}", c.passes, c.sliding_window, c.no_diagonal ? ", no diagonal" : ""));
}

}  // namespace

KeyValues settings(Command command, const Options& o, const Checkpoint& checkpoint, const SpecLevels* proposing) {
    constexpr std::array own = {"prompt",     "file",      "prompt-ids", "session", "input",       "output-path",
                                "limit",      "skip",      "shuffle",    "rouge",   "data",        "dataset",
                                "spec-costs", "config",    "threads",    "bind",    "report-json", "dump-logits",
                                "trace",      "kv-dump",   "save-kv",    "load-kv", "force",       "no-progress",
                                "quiet",      "log-level", "verbose",    "record"};
    KeyValues all = {{"commit", TRIREME_COMMIT}, {"command", std::string(name_of(command))}};
    Options ruled = o;  // a policy's own rule compares like the flag that names it
    ruled.eviction.one_set = std::nullopt;
    if (o.eviction.keeps_one_set(o.eviction.policy)) ruled.eviction.one_set = true;
    for (const Flag& flag : flags()) {
        if (!flag.belongs_to(command) || std::find(own.begin(), own.end(), flag.name) != own.end()) continue;
        all.emplace_back(flag.name, flag.show(ruled));
    }
    add_config(checkpoint.config(), o.ctx_size, "", all);
    all.emplace_back("eos_token_id", fmt::format("{}", fmt::join(checkpoint.eos, " ")));
    all.emplace_back("tensors", fingerprint(*checkpoint.source));
    all.emplace_back("tokenizer", checkpoint.tokenizer ? fingerprint(*checkpoint.tokenizer) : "none");
    // Chains store keys in the backend's layout.
    all.emplace_back("backend", checkpoint.backend == "cpu" ? "cpu, keys in blocks of 16" : checkpoint.backend);
    all.emplace_back("weights", checkpoint.weight_type.name);
    if (const WeightSource* draft = proposing == nullptr ? nullptr : proposing->draft_files(); draft != nullptr) {
        add_config(draft->config(), o.ctx_size, "draft ", all);
        all.emplace_back("draft tensors", fingerprint(*draft));
        all.emplace_back("draft weights", proposing->draft_weights());
    }
    const std::string corpus = proposing == nullptr ? "" : proposing->corpus_digest();
    if (!corpus.empty() || o.spec.has(Part::kSuffix)) {  // the chains of a bench are not o.spec
        all.emplace_back(kCorpusIds, corpus.empty() ? "none" : corpus);
    }
    return all;
}

std::string value_of(const std::map<std::string, std::string>& settings, const std::string& name) {
    if (const auto found = settings.find(name); found != settings.end()) return found->second;
    const Flag* flag = find_key(name);
    return flag != nullptr && flag->name == name ? flag->show(Options{}) : "none";
}

KeyValues deciding_settings(Command command, const KeyValues& settings, bool seed_drawn) {
    constexpr std::array free = {"model", "model-draft", "suffix-corpus", "tokenizer", "print", "parallel",
                                 "kv-on-chip", "kv-ring", "host-memory", "device-memory", "link-gbps", "link-us",
                                 "kv-verify", "kv-wire", "device", "no-graphs", "graphs", "num-samples",
                                 "tensor-parallel-size",
                                 // Aliases of other flags.
                                 "h2o", "kv-rolling", "no-bos", "kv-cache-dtype"};
    constexpr std::array not_files = {"commit", "command", "backend",
                                      "weights"};  // --dtype is compared as it was given
    const Options defaults;
    KeyValues flags_given;
    std::string files, draft_files;
    std::set<std::string> seen;  // flags come first; a later entry may have a flag's name, as `tokenizer`
    for (const auto& [name, value] : settings) {
        const Flag* flag = find_key(name);
        if (flag != nullptr && flag->name == name && flag->belongs_to(command) && seen.insert(name).second) {
            if (std::ranges::find(free, name) != free.end()) continue;
            const std::string shown = name == "seed" && seed_drawn ? "-1" : value;
            if (shown != flag->show(defaults)) flags_given.emplace_back(name, shown);
        } else if (name == kCorpusIds) {
            if (value != "none") flags_given.emplace_back(name, value);
        } else if (std::ranges::find(not_files, name) == not_files.end()) {
            (name.starts_with("draft ") ? draft_files : files) += fmt::format("{}={}\n", name, value);
        }
    }
    flags_given.emplace_back("model files", hex_digest(files));
    if (!draft_files.empty()) flags_given.emplace_back("draft files", hex_digest(draft_files));
    return flags_given;
}

}  // namespace trireme
