#include "launch/flags/foreign_flags.h"

#include <algorithm>

#include "launch/flags/flags.h"

namespace trireme {

std::span<const ForeignFlags> foreign_flags() {
    using Harmless = ForeignFlags::Harmless;
    static const std::vector<ForeignFlags> all = {
        // Memory and placement.
        {{"-ngl", "--gpu-layers", "--n-gpu-layers"},
         "weights are always on the device; --kv-on-chip LAYERS is for keys and values",
         Harmless::kValue},
        {{"-nkvo", "--no-kv-offload", "-kvo", "--kv-offload"}, "use --kv-on-chip LAYERS, 0 for none of them"},
        {{"--gpu-memory-utilization", "--kv-cache-memory-bytes", "--fit-target", "--mem-fraction-static"},
         "use --device-memory BYTES: what a rank may take of its device"},
        {{"--swap-space", "--kv-offloading-size", "--kv-host-size", "--hicache-size"},
         "use --host-memory BYTES: what a rank may pin for keys and values"},
        {{"--cpu-offload-gb", "-ot", "--override-tensor", "--cpu-moe", "--n-cpu-moe"},
         "not supported here: weights stay on the device, only keys and values lie in host memory; more ranks "
         "share the weights"},
        {{"--mmap", "--no-mmap", "--mlock", "--no-host", "--no-repack"},
         "files are read into memory of the program's own, never mapped",
         Harmless::kSwitch},
        {{"--prompt-cache", "--prompt-cache-all", "--prompt-cache-ro", "--slot-save-path", "--enable-prefix-caching"},
         "not supported here: no keys and values are kept from one run to the next; --num-samples continues one "
         "prompt several times"},
        {{"--block-size", "--page-size"}, "keys and values come in tiles of 256 tokens", Harmless::kValue},
        {{"--defrag-thold", "-dt"}, "tiles have their places for good", Harmless::kValue},
        // Computation.
        {{"-b", "--batch-size", "-ub", "--ubatch-size", "--max-num-batched-tokens", "--chunked-prefill-size"},
         "a prompt is computed in batches of one size, so that the size changes no token",
         Harmless::kValue},
        {{"--enable-chunked-prefill"}, "a prompt is always computed in batches", Harmless::kSwitch},
        {{"-fa", "--flash-attn", "--flash-attention"},
         "attention always goes through keys and values tile by tile",
         Harmless::kOnOff},
        {{"--attention-backend", "--attn-implementation"},
         "attention always goes through keys and values tile by tile",
         Harmless::kValue},
        {{"--enforce-eager"}, "use --no-graphs"},
        {{"--quantization", "--load-format"},
         "not supported here: the checkpoint's files say what they hold; --dtype is the type in memory"},
        {{"-tb", "--threads-batch"}, "use -t COUNT: prompt and continuation have the same threads"},
        {{"--numa", "-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll"},
         "use --bind: each rank keeps to neighbouring cores; or bind the ranks yourself (mpirun --map-by)"},
        {{"-sm", "--split-mode", "-ts", "--tensor-split"}, "use mpirun -n RANKS: they share heads and columns evenly"},
        {{"-mg", "--main-gpu", "-dev"}, "use --device cuda:INDEX"},
        {{"-pp", "--pipeline-parallel-size", "-dp", "--data-parallel-size"},
         "not supported here: ranks share every layer (mpirun -n RANKS)"},
        {{"--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
          "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-fast", "--yarn-beta-slow", "--hf-overrides"},
         "not supported here: the checkpoint's config.json says how positions are rotated (rope_scaling)"},
        // Input and output.
        {{"-s"}, "use --seed N"},
        {{"--repeat-penalty", "--repeat-last-n", "--presence-penalty", "--frequency-penalty", "--repetition-penalty",
          "--typical", "--mirostat", "--dry-multiplier", "--xtc-probability", "--dynatemp-range", "--logit-bias",
          "--samplers", "--grammar", "--grammar-file", "-j", "--json-schema"},
         "not supported here: tokens are drawn by --temp, --top-k, --top-p and --min-p alone"},
        {{"-no-cnv", "--no-conversation", "-st", "--single-turn", "--no-jinja"},
         "a prompt is continued as it is, with no template around it",
         Harmless::kSwitch},
        {{"--perf", "--no-perf", "--no-warmup", "--offline", "--no-context-shift", "--do-sample", "--use-cache"},
         "it changes nothing here",
         Harmless::kSwitch},
        {{"--low-cpu-mem-usage", "--device-map", "--cache-dir", "--use-fast-tokenizer"},
         "it changes nothing here",
         Harmless::kValue},
        {{"-i", "--interactive", "-cnv", "--conversation"}, "use the command chat, or --session FILE"},
        {{"--chat-template", "--chat-template-file", "--jinja"}, "use --chat: it applies the model's own template"},
        {{"-e", "--escape"}, "use -f FILE for a text with line breaks: a prompt is taken as it is"},
        {{"--keep", "--context-shift"}, "not supported here: a continuation ends with the context (--ctx-size)"},
        {{"-hf", "--hf-repo", "--hf-file", "-mu", "--model-url", "--download-dir"},
         "use -m PATH of files that are there: nothing is downloaded"},
        {{"--lora", "--lora-scaled", "--enable-lora", "--control-vector"},
         "not supported here: merge what was trained into the checkpoint"},
        {{"--trust-remote-code"}, "no code of a checkpoint is ever run", Harmless::kSwitch},
        {{"--perplexity", "--ppl"}, "use trireme score"},
        {{"--log-verbosity", "--verbosity", "--log-disable"}, "use --log-level LEVEL"},
        {{"--log-file"}, "use 2> FILE: the log goes to stderr"},
        {{"--no-display-prompt", "--verbose-prompt", "--color", "--simple-io"},
         "stdout has the continuation alone",
         Harmless::kSwitch},
        // Several requests, several models.
        {{"-cb", "--cont-batching", "--max-num-seqs"},
         "not supported here: prompts are served one after the other; trireme batch has many of them, --num-samples "
         "continues one several times"},
        {{"--host", "--port", "--api-key", "--served-model-name"}, "not supported here: this is no server"},
        {{"--draft"}, "use --gamma COUNT for the number of tokens, --model-draft PATH for the model"},
        {{"--target"}, "use --model PATH"},
        {{"--speculative-config"}, "use --spec draft, --model-draft PATH and --gamma COUNT"},
        {{"--dataset-path", "--dataset-name"},
         "use --data PATH: texts in files, or token ids (trireme convert --tokens)"},
        {{"--num-prompts", "--num_prompts", "--max-samples"}, "use --limit COUNT"},
        {{"--disable-shuffle", "--no-shuffle"},
         "not supported here: texts keep their order unless --shuffle SEED is given"},
        {{"--enable-streaming", "--sink-cache"}, "use --kv-policy streaming, with --kv-window and --kv-sinks"},
        {{"--baseline", "--compare-baseline"}, "use trireme bench --modes none, followed by the other modes"},
    };
    return all;
}

const ForeignFlags* find_foreign(std::string_view spelling) {
    for (const ForeignFlags& f : foreign_flags()) {
        const auto same = [&](std::string_view name) { return same_spelling(name, spelling); };
        if (std::ranges::any_of(f.names, same)) return &f;
    }
    return nullptr;
}

}  // namespace trireme
