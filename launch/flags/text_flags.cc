// The flags of the prompt, the continuation and sampling.

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
                 "a Hugging Face folder, a .gguf file, or a .h5 file written by convert; or ORG/NAME, if Hugging "
                 "Face's cache has it. Nothing is downloaded",
                 [](O& o, const S& s) { o.model = s.word(); },
                 [](const O& o) { return o.model; },
                 "required"},
                {"tokenizer",
                 {"--tokenizer"},
                 kEncode,
                 "PATH",
                 "read the tokenizer from here: tokenizer.json, tokenizer.model, a folder or a .gguf file",
                 [](O& o, const S& s) { o.tokenizer = s.word(); },
                 [](const O& o) { return o.tokenizer; },
                 "the model's"},
                {"prompt",
                 {"-p", "--prompt"},
                 kPrompted,
                 "TEXT",
                 "the prompt",
                 set_prompt<PromptFrom::kText>,
                 show_prompt<PromptFrom::kText>,
                 "none",
                 {"file", "prompt-ids", "session", "data", "dataset"}},
                {"file",
                 {"-f", "--file"},
                 kPrompted | kChat,
                 "FILE",
                 "a file with the prompt; -: stdin. chat: a document that precedes the first question",
                 set_prompt<PromptFrom::kFile>,
                 show_prompt<PromptFrom::kFile>,
                 "none",
                 {"prompt", "prompt-ids", "session", "data", "dataset"}},
                {"prompt-ids",
                 {"--prompt-ids"},
                 kForward & kPrompted,
                 "FILE",
                 "a file with token ids as a JSON array, used unchanged; -: stdin",
                 set_prompt<PromptFrom::kIds>,
                 show_prompt<PromptFrom::kIds>,
                 "none",
                 {"prompt", "file", "session", "data", "dataset", "chat"}},
                {"session",
                 {"--session"},
                 kGenerate,
                 "FILE",
                 "a conversation on one cache: a .jsonl file with one turn per line (prompt, text, or MT-bench's "
                 "turns). -n limits each answer (default 1,000)",
                 set_prompt<PromptFrom::kSession>,
                 show_prompt<PromptFrom::kSession>,
                 "none",
                 {"prompt", "file", "prompt-ids", "data", "dataset"}},
                {"add-special",
                 {"--add-special"},
                 kEncode & ~kChat,
                 "",
                 "add the special tokens that the tokenizer's files require (BOS); ids are never changed",
                 [](O& o, const S& s) { o.add_special = s.on(); },
                 [](const O& o) { return o.add_special ? on_off(*o.add_special) : ""; },
                 "off for tokenize, else on",
                 {"chat"}},
                {"no-bos",
                 {"--no-bos"},
                 kEncode & ~kChat,
                 "",
                 "same as --add-special=off",
                 [](O& o, const S& s) {
                     if (s.on()) o.add_special = false;
                 },
                 [](const O& o) { return on_off(o.add_special == false); }},
                {"chat",
                 {"--chat"},
                 (kContinue & ~kChat) | kTokenize,
                 "",
                 "the prompt is a user's message: the model's chat template turns it into the text to continue. "
                 "Requires Python 3 with jinja2",
                 [](O& o, const S& s) { o.chat = s.on(); },
                 [](const O& o) { return on_off(o.chat); },
                 "",
                 {"prompt-ids", "add-special"}},
                {"system",
                 {"-sys", "--system", "--system-prompt"},
                 kContinue | kTokenize,
                 "TEXT",
                 "the system message before the user's, with --chat",
                 [](O& o, const S& s) { o.system = s.text; },
                 [](const O& o) { return o.system; },
                 "none"},
                {"ctx-size",
                 {"-c", "--ctx-size", "--max-model-len"},
                 kShaped,
                 "TOKENS",
                 "tokens of prompt and output to make room for; 0: the model's context",
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
                 "tokens to generate at most; -1: until EOS, a stop string or the end of the context (bench: "
                 "256). plan: output tokens that --reselect never retains",
                 [](O& o, const S& s) {
                     o.n_predict = s.text == "-1" ? -1 : s.size(0, kMostTokens, ", or -1: to the context's end");
                 },
                 [](const O& o) { return shown(o.n_predict); }},
                {"num-samples",
                 {"--num-samples", "--num-return-sequences"},
                 kGenerate,
                 "COUNT",
                 "independent samples of one prompt; sample i depends on the seed and i only",
                 [](O& o, const S& s) { o.num_samples = s.integer(1, 65536); },
                 [](const O& o) { return shown(o.num_samples); }},
                {"parallel",
                 {"-np", "--parallel"},
                 (kDecode & ~kChat) | kPlan,
                 "COUNT|auto",
                 "sequences decoded in one forward: samples of one prompt, or requests of batch. Each has the "
                 "tokens that it has alone. auto: as many as memory allows. bench: a list, one row each",
                 set_parallel,
                 show_parallel},
                {"stop",
                 {"-r", "--stop", "--reverse-prompt"},
                 kContinue,
                 "TEXT",
                 "stop before this string; may be repeated",
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
                 "do not stop at EOS",
                 [](O& o, const S& s) { o.ignore_eos = s.on(); },
                 [](const O& o) { return on_off(o.ignore_eos); }},
                {"print",
                 {"--print"},
                 kGenerate,
                 "text|ids|prompt",
                 "what goes to stdout; ids: one JSON array per sample; prompt: the prompt, as --chat makes it, then "
                 "the text; with -n 0 the prompt alone, and no weights are read",
                 [](O& o, const S& s) {
                     o.print = static_cast<Print>(s.one_of({"text", "ids", "prompt"}));
                 },
                 [](const O& o) {
                     return std::string(o.print == Print::kText ? "text" : o.print == Print::kIds ? "ids" : "prompt");
                 }},
            }};
}

FlagGroup sampling_flags() {
    return {"Sampling",
            {
                {"seed",
                 {"--seed"},
                 kDecode | kScore,
                 "N",
                 "random seed, 0 to 2^64 - 1; -1 picks one and logs it. score: for --kv-policy random",
                 [](O& o, const S& s) {
                     o.seed = s.text == "-1" ? std::nullopt : std::optional(s.any_unsigned(", or -1: one is drawn"));
                 },
                 [](const O& o) { return o.seed ? shown(*o.seed) : "-1"; }},
                {"temp",
                 {"--temp", "--temperature"},
                 kDecode,
                 "X",
                 "temperature, 0 to 100; 0: greedy. bench: several, such as 0.2,0.6,1: one table",
                 [](O& o, const S& s) {
                     o.temperatures.clear();
                     for (const S& part : parts_of(s)) o.temperatures.push_back(part.real(0, 100));
                     o.sampling.temperature = o.temperatures.front();
                 },
                 [](const O& o) {
                     std::vector<std::string> all = {shown(o.sampling.temperature)};
                     for (size_t i = 1; i < o.temperatures.size(); ++i) all.push_back(shown(o.temperatures[i]));
                     return joined(all);
                 }},
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
