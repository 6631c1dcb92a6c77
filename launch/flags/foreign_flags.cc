#include "launch/flags/foreign_flags.h"

#include <algorithm>

namespace trireme {

std::span<const ForeignFlags> foreign_flags() {
    static const std::vector<ForeignFlags> all = {
        // Where things lie.
        {{"-ngl", "--gpu-layers", "--n-gpu-layers"},
         "use --kv-on-chip LAYERS: it counts layers whose keys and values stay on the device; weights always do"},
        {{"-nkvo", "--no-kv-offload", "-kvo", "--kv-offload"}, "use --kv-on-chip LAYERS, 0 for none of them"},
        {{"--gpu-memory-utilization", "--kv-cache-memory-bytes", "--fit-target", "--mem-fraction-static"},
         "use --device-memory BYTES: what a rank may take of its device"},
        {{"--swap-space", "--kv-offloading-size", "--kv-host-size", "--hicache-size"},
         "use --host-memory BYTES: what a rank may pin for keys and values"},
        {{"--cpu-offload-gb", "-ot", "--override-tensor", "--cpu-moe", "--n-cpu-moe"},
         "not supported: weights stay on the device, only keys and values lie in host memory; more ranks "
         "share the weights"},
        {{"--mmap", "--no-mmap", "--mlock"},
         "not supported: files are read into memory of the program's own, never mapped"},
        {{"--prompt-cache", "--prompt-cache-all", "--prompt-cache-ro", "--slot-save-path", "--enable-prefix-caching"},
         "not supported: no keys and values are kept from one run to the next; --num-samples continues one "
         "prompt several times"},
        {{"--block-size", "--page-size"}, "not supported: keys and values come in tiles of 256 tokens"},
        {{"--defrag-thold", "-dt"}, "not supported: tiles have their places for good"},
        // How it is computed.
        {{"-b", "--batch-size", "-ub", "--ubatch-size", "--max-num-batched-tokens", "--enable-chunked-prefill",
          "--chunked-prefill-size"},
         "not supported: a prompt is computed in batches of one size, so that the size changes no token"},
        {{"-fa", "--flash-attn", "--flash-attention", "--attention-backend"},
         "not supported: attention goes through keys and values tile by tile, always"},
        {{"--enforce-eager"}, "use --no-graphs"},
        {{"-q", "--quantization", "--load-format"},
         "not supported: the checkpoint's files say what they hold; --dtype is the type in memory"},
        {{"-tb", "--threads-batch"}, "use -t COUNT: prompt and continuation have the same threads"},
        {{"--numa", "-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll"},
         "use --bind: each rank keeps to neighbouring cores; or bind the ranks yourself (mpirun --map-by)"},
        {{"-sm", "--split-mode", "-ts", "--tensor-split"}, "use mpirun -n RANKS: they share heads and columns evenly"},
        {{"-mg", "--main-gpu", "-dev"}, "use --device cuda:INDEX"},
        {{"-pp", "--pipeline-parallel-size", "-dp", "--data-parallel-size"},
         "not supported: ranks share every layer (mpirun -n RANKS)"},
        {{"--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
          "--yarn-ext-factor", "--yarn-attn-factor", "--yarn-beta-fast", "--yarn-beta-slow", "--hf-overrides"},
         "not supported: the checkpoint's config.json says how positions are rotated (rope_scaling)"},
        // What is read and said.
        {{"-s"}, "use --seed N"},
        {{"--repeat-penalty", "--repeat-last-n", "--presence-penalty", "--frequency-penalty", "--repetition-penalty",
          "--typical", "--mirostat", "--dry-multiplier", "--xtc-probability", "--dynatemp-range", "--logit-bias",
          "--samplers", "--grammar", "--grammar-file", "-j", "--json-schema"},
         "not supported: tokens are drawn by --temp, --top-k, --top-p and --min-p alone"},
        {{"-i", "--interactive", "-cnv", "--conversation", "-no-cnv", "--no-conversation", "--chat-template", "--jinja",
          "-sys", "--system-prompt"},
         "not supported: a prompt is continued as it stands, with no template around it"},
        {{"-e", "--escape"}, "use -f FILE for a text with line breaks: a prompt is taken as it is"},
        {{"--keep", "--context-shift", "--no-context-shift"},
         "not supported: a continuation ends with the context (--ctx-size)"},
        {{"-hf", "--hf-repo", "--hf-file", "-mu", "--model-url", "--download-dir"},
         "use -m PATH of files that are there: nothing is downloaded"},
        {{"--lora", "--lora-scaled", "--enable-lora", "--control-vector"},
         "not supported: merge what was trained into the checkpoint"},
        {{"--trust-remote-code"}, "not supported: no code of a checkpoint is run"},
        {{"--perplexity", "--ppl"}, "use trireme score"},
        {{"--log-verbosity", "--verbosity", "--log-disable"}, "use --log-level LEVEL"},
        {{"--log-file"}, "use 2> FILE: the log goes to stderr"},
        {{"--no-display-prompt", "--verbose-prompt", "--color", "--simple-io"},
         "not supported: stdout has the continuation alone"},
        // Several requests, several models.
        {{"-cb", "--cont-batching", "--max-num-seqs"},
         "not supported: prompts are served one after the other; trireme batch has many of them, --num-samples "
         "continues one several times"},
        {{"--host", "--port", "--api-key", "--served-model-name"}, "not supported: this is no server"},
        {{"--draft"}, "use --gamma COUNT for the number of tokens, --model-draft PATH for the model"},
        {{"--target"}, "use --model PATH"},
        {{"--speculative-config"}, "use --spec draft, --model-draft PATH and --gamma COUNT"},
        {{"--dataset-path", "--dataset-name", "--tasks"},
         "use --data PATH: texts in files, or token ids (trireme convert --tokens)"},
        {{"--num-prompts", "--num_prompts", "--max-samples"}, "use --limit COUNT"},
        {{"--disable-shuffle", "--no-shuffle"}, "not supported: texts keep their order unless --shuffle SEED is given"},
        {{"--baseline", "--compare-baseline"}, "use trireme bench --modes none, with the other modes behind it"},
    };
    return all;
}

std::string_view foreign_answer(std::string_view spelling) {
    for (const ForeignFlags& f : foreign_flags()) {
        if (std::find(f.names.begin(), f.names.end(), spelling) != f.names.end()) return f.answer;
    }
    return "";
}

}  // namespace trireme
