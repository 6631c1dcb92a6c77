#include "launch/flags/help.h"

#include <algorithm>
#include <cctype>

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr std::string_view kOverview =
    R"(trireme: exact decoding of Llama models, on one rank or many.

  trireme generate -m MODEL -p TEXT      continue a text
  trireme tokenize -m MODEL -f FILE      token ids of a text, as JSON
  trireme score    -m MODEL -f FILE      perplexity of a text, or log probabilities of pairs
  trireme bench    -m MODEL -f FILE      speed of several ways to decode, as a table
  trireme batch    -m MODEL --input FILE --output-path FILE   continue many texts, JSON a line
  trireme convert  -m MODEL -o OUT       write a model as a folder or a .h5 file
  trireme convert  -m MODEL --tokens TEXTS -o FILE.h5   token ids of many texts, for --data
  trireme report   FILE... -o FOLDER     pages with pictures of runs that --record has kept
  trireme plan     -m MODEL              memory and time of a run, before it is started
  trireme doctor                         how fast memory, link and ranks are here

  trireme COMMAND --help[=WORD]          the flags of a command; with WORD only those that mention it
  trireme --help=WORD                    the same over all commands
  trireme --version                      version, commit and libraries
  trireme --list-devices                 what --device may name here
  trireme --man                          the manual page, for man: trireme --man | man -l -
  trireme --completion bash              completion of all this: source <(trireme --completion bash)

On two ranks: mpirun -n 2 trireme generate ... (docs/using.md: Slurm, variables, exit codes).
)";

std::string lower(std::string_view text) {
    std::string s(text);
    std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return s;
}

// "  -n, --n-predict, --max-tokens TOKENS" and, indented below, what it does.
std::string help_entry(const Flag& flag) {
    std::string text = "  ";
    for (const std::string_view s : flag.spellings) text += fmt::format("{}{}", s == flag.spellings[0] ? "" : ", ", s);
    if (!flag.is_switch()) text += fmt::format(" {}", flag.value);
    const std::string value = flag.show(Options{});
    text += fmt::format("\n        {}\n        [default: {}] [env: {}]\n", flag.help,
                        value.empty() ? flag.fallback : value, flag.env_name());
    return text;
}

}  // namespace

std::string_view about(Command command) {
    switch (command) {
        case Command::kGenerate:
            return "trireme generate: continue a text. The continuation goes to stdout, everything else to stderr.\n";
        case Command::kTokenize:
            return "trireme tokenize: the token ids of a text, one JSON array on stdout. Reads no weights.\n";
        case Command::kScore:
            return "trireme score: perplexity of a text, whole or in windows; with --data, log probabilities of pairs "
                   "of\n"
                   "context and continuation, a JSON object each. -o FILE gets the log probability of every token.\n";
        case Command::kBatch:
            return "trireme batch: continue many texts. A JSON object a line, in and out; a run that was ended goes on "
                   "where it\n"
                   "stopped. A line may have settings of its own: max_tokens, temperature, top_p, top_k, stop, seed.\n";
        case Command::kPlan:
            return "trireme plan: where a run's keys and values would live, what it would take of each rank's memory, "
                   "and\n"
                   "what a decode step would cost. For this machine, or one that flags describe. Reads no weights.\n";
        case Command::kDoctor:
            return "trireme doctor: how fast memory, link and ranks are here, beside what they should be. A table on "
                   "stdout.\n";
        case Command::kBench:
            return "trireme bench: how fast several ways to decode are, one beside the other: one loaded model, one "
                   "prefill of\n"
                   "each text, by turns. A table on stdout.\n";
        case Command::kConvert:
            return "trireme convert: write a model as a folder that transformers reads, or as one .h5 file that loads "
                   "with "
                   "digests;\n"
                   "with another layer map, or in another type. A folder's tensors have the type that most of the "
                   "model's elements are\n"
                   "stored in, a .h5 file's the type that each has. With --tokens: write the token ids of\n"
                   "texts to an HDF5 file that --data reads (trireme convert -m MODEL --tokens books/ -o books.h5); "
                   "the "
                   "model is only\n"
                   "asked for its tokenizer.\n";
        case Command::kReport:
            return "trireme report: a page in Markdown with pictures of the runs in files that --record has written. "
                   "Drawn by\n"
                   "Python (python3, or TRIREME_PYTHON) with h5py and matplotlib. Reads no model.\n";
    }
    return "";
}

std::string help_text(std::optional<Command> command, std::string_view keyword) {
    if (!command && keyword.empty()) return std::string(kOverview);
    std::string text(command ? about(*command) : "");
    const std::string wanted = lower(keyword);
    bool any = false;
    for (const FlagGroup& group : flag_groups()) {
        std::string entries;
        for (const Flag& flag : group.flags) {
            if (command && !flag.belongs_to(*command)) continue;
            const std::string e = help_entry(flag);
            if (lower(e).find(wanted) != std::string::npos) entries += e;
        }
        if (entries.empty()) continue;
        any = true;
        text += fmt::format("\n{}\n{}", group.title, entries);
    }
    if (!any) return text + fmt::format("\nNo flag mentions '{}'.\n", keyword);
    return text + "\n" + std::string(kSources);
}

}  // namespace trireme
