// The flags that say which text is read, and how it goes on.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

template <PromptFrom From>
void set_prompt(O& o, const S& s) {
    o.prompt_from = From;
    o.prompt = From == PromptFrom::kText ? s.text : s.word();
}
template <PromptFrom From>
std::string show_prompt(const O& o) {
    return o.prompt_from == From ? o.prompt : "";
}

void set_parallel(O& o, const S& s) {
    o.parallel.clear();
    for (size_t from = 0; from <= s.text.size();) {
        const size_t end = std::min(s.text.find(',', from), s.text.size());
        const S one = {s.where, s.text.substr(from, end - from)};
        o.parallel.push_back(one.text == "auto" ? O::kMostParallel
                                                : one.integer(1, O::kParallelLimit, ", or auto: as many as fit"));
        from = end + 1;
    }
}
std::string show_parallel(const O& o) {
    std::string all;
    for (const int64_t n : o.parallel) {
        all += (all.empty() ? "" : ",") + (n == O::kMostParallel ? std::string("auto") : shown(n));
    }
    return all;
}

}  // namespace

FlagGroup prompt_flags() {
    return {"Model and prompt",
            {
                {"model",
                 {"-m", "--model", "--model-name", "--model-name-or-path"},
                 kModel,
                 "PATH",
                 "folder with config.json and safetensors, a .gguf file, or a .h5 file of convert's",
                 [](O& o, const S& s) { o.model = s.word(); },
                 [](const O& o) { return o.model; },
                 "required"},
                {"tokenizer",
                 {"--tokenizer"},
                 kEncode,
                 "PATH",
                 "tokenizer.json, tokenizer.model, a folder or a .gguf file to take the tokenizer from",
                 [](O& o, const S& s) { o.tokenizer = s.word(); },
                 [](const O& o) { return o.tokenizer; },
                 "the model's"},
                {"prompt",
                 {"-p", "--prompt"},
                 kPrompted,
                 "TEXT",
                 "the text itself",
                 set_prompt<PromptFrom::kText>,
                 show_prompt<PromptFrom::kText>,
                 "none",
                 {"file", "prompt-ids", "session", "data", "dataset"}},
                {"file",
                 {"-f", "--file"},
                 kPrompted,
                 "FILE",
                 "a file with the text; - is stdin",
                 set_prompt<PromptFrom::kFile>,
                 show_prompt<PromptFrom::kFile>,
                 "none",
                 {"prompt", "prompt-ids", "session", "data", "dataset"}},
                {"prompt-ids",
                 {"--prompt-ids"},
                 kForward & kPrompted,
                 "FILE",
                 "a file with the token ids as a JSON array, taken as they are; - is stdin",
                 set_prompt<PromptFrom::kIds>,
                 show_prompt<PromptFrom::kIds>,
                 "none",
                 {"prompt", "file", "session", "data", "dataset"}},
                {"session",
                 {"--session"},
                 kGenerate,
                 "FILE",
                 "a conversation on one cache that is never reset: a .jsonl file of turns, each an object with prompt, "
                 "text or turns (MT-bench's, which are put between USER: and ASSISTANT:); -n counts each answer's "
                 "tokens, at most 1,000 unless it is given",
                 set_prompt<PromptFrom::kSession>,
                 show_prompt<PromptFrom::kSession>,
                 "none",
                 {"prompt", "file", "prompt-ids", "data", "dataset"}},
                {"add-special",
                 {"--add-special"},
                 kEncode,
                 "",
                 "put the special tokens around a text that the tokenizer's files ask for (BOS); ids are never changed",
                 [](O& o, const S& s) { o.add_special = s.on(); },
                 [](const O& o) { return o.add_special ? on_off(*o.add_special) : ""; },
                 "off for tokenize, else on"},
                {"no-bos",
                 {"--no-bos"},
                 kEncode,
                 "",
                 "the same as --add-special=off",
                 [](O& o, const S& s) {
                     if (s.on()) o.add_special = false;
                 },
                 [](const O& o) { return on_off(o.add_special == false); }},
                {"ctx-size",
                 {"-c", "--ctx-size", "--max-model-len"},
                 kShaped,
                 "TOKENS",
                 "room for prompt and continuation; 0: all that the model serves",
                 [](O& o, const S& s) { o.ctx_size = s.size(0, kMostTokens); },
                 [](const O& o) { return shown(o.ctx_size); }},
            }};
}

FlagGroup continuation_flags() {
    return {"Continuation",
            {
                {"n-predict",
                 {"-n", "--n-predict", "--max-new-tokens", "--max-tokens", "--gen-len", "--length"},
                 kDecode | kPlan,
                 "TOKENS",
                 "the most tokens to generate; -1: until a stop or the end of the context, of a bench 256. plan: for "
                 "--reselect never, which keeps what is generated",
                 [](O& o, const S& s) {
                     o.n_predict = s.text == "-1" ? -1 : s.size(1, kMostTokens, ", or -1: to the context's end");
                 },
                 [](const O& o) { return shown(o.n_predict); }},
                {"num-samples",
                 {"--num-samples", "--num-return-sequences"},
                 kGenerate,
                 "COUNT",
                 "independent continuations of one prefill; sample i depends on the seed and i alone",
                 [](O& o, const S& s) { o.num_samples = s.integer(1, 65536); },
                 [](const O& o) { return shown(o.num_samples); }},
                {"parallel",
                 {"-np", "--parallel"},
                 kDecode | kPlan,
                 "COUNT|auto",
                 "texts that are decoded side by side, in one forward: samples, which share the prompt's keys and "
                 "values; in batch: requests. Each has the tokens that it has alone. auto: as many as there is memory "
                 "for. bench: several numbers with commas between, a row for each; plan: for how many there is to be "
                 "room",
                 set_parallel,
                 show_parallel},
                {"stop",
                 {"-r", "--stop", "--reverse-prompt"},
                 kContinue,
                 "TEXT",
                 "end before this text; may be given several times",
                 [](O& o, const S& s) {
                     if (s.first) o.stop.clear();
                     o.stop.push_back(s.word());
                 },
                 [](const O& o) {
                     std::string all;
                     for (const std::string& text : o.stop) all += (all.empty() ? "" : " | ") + text;
                     return all;
                 },
                 "none",
                 {},
                 /*repeatable=*/true},
                {"ignore-eos",
                 {"--ignore-eos"},
                 kContinue,
                 "",
                 "go on behind an end-of-text token",
                 [](O& o, const S& s) { o.ignore_eos = s.on(); },
                 [](const O& o) { return on_off(o.ignore_eos); }},
                {"print",
                 {"--print"},
                 kGenerate,
                 "text|ids",
                 "what goes to stdout; ids: one JSON array a line, a line a sample",
                 [](O& o, const S& s) {
                     o.print = s.one_of({"text", "ids"}) == 0 ? Print::kText : Print::kIds;
                 },
                 [](const O& o) { return std::string(o.print == Print::kText ? "text" : "ids"); }},
            }};
}

FlagGroup sampling_flags() {
    return {"Sampling",
            {
                {"seed",
                 {"--seed"},
                 kDecode,
                 "N",
                 "of every random number of the run; 0 to 2^64 - 1, or -1: one is drawn, and reported",
                 [](O& o, const S& s) {
                     o.seed = s.text == "-1" ? std::nullopt : std::optional(s.any_unsigned(", or -1: one is drawn"));
                 },
                 [](const O& o) { return o.seed ? shown(*o.seed) : "-1"; }},
                {"temp",
                 {"--temp", "--temperature"},
                 kDecode,
                 "X",
                 "divides the logits, 0 to 100; 0: always the most likely token",
                 [](O& o, const S& s) { o.sampling.temperature = s.real(0, 100); },
                 [](const O& o) { return shown(o.sampling.temperature); }},
                {"top-k",
                 {"--top-k"},
                 kDecode,
                 "N",
                 "keep the N most likely tokens; 0: all",
                 [](O& o, const S& s) { o.sampling.top_k = s.integer(0, kMostIds); },
                 [](const O& o) { return shown(o.sampling.top_k); }},
                {"top-p",
                 {"--top-p", "--top_p"},
                 kDecode,
                 "X",
                 "keep the fewest tokens whose probabilities reach X, above 0 to 1; 1: all",
                 [](O& o, const S& s) { o.sampling.top_p = s.real_above(0, 1); },
                 [](const O& o) { return shown(o.sampling.top_p); }},
                {"min-p",
                 {"--min-p"},
                 kDecode,
                 "X",
                 "keep tokens at least X times as likely as the most likely one, 0 to 1; 0: all",
                 [](O& o, const S& s) { o.sampling.min_p = s.real(0, 1); },
                 [](const O& o) { return shown(o.sampling.min_p); }},
            }};
}

}  // namespace trireme
