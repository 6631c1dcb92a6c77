#include "launch/flags/help.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr std::string_view kOverview =
    R"(trireme: long-context generation with Llama models, on one rank or many.

  trireme generate -m MODEL -p TEXT    continue a prompt
  trireme chat -m MODEL [-f DOCUMENT]  a conversation in the terminal
  trireme batch -m MODEL --input FILE -o FILE    continue many prompts (JSONL)
  trireme pipe -m MODEL                answer requests on stdin (JSONL)
  trireme score -m MODEL -f FILE       perplexity, or log probabilities of pairs
  trireme evaluate -m MODEL --suite LIST -o DIR    RULER, LongBench and others
  trireme bench -m MODEL -f FILE       compare decoding modes, as a table
  trireme plan -m MODEL                memory and time, before a run starts
  trireme doctor                       measure this machine; flags for plan
  trireme tokenize -m MODEL -f FILE    token ids, as JSON
  trireme convert -m MODEL -o OUT      write a model as a folder or a .h5 file
  trireme convert -m MODEL --tokens TEXTS -o FILE.h5    token ids for --data
  trireme report FILE... -o FOLDER     draw runs that --record has written

  trireme COMMAND --help[=WORD]        flags of a command; WORD searches them
  trireme --help=WORD                  search flags, commands and documents
  trireme --version                    version, commit and libraries
  trireme --list-devices               devices for --device
  trireme --man                        manual page: trireme --man | man -l -
  trireme --completion bash            source <(trireme --completion bash)

Several ranks: mpirun -n 2 trireme generate ... Documents: docs/start.md.
)";

/// The flags that most runs use, in the order in which --help begins with them.
constexpr std::string_view kCommon[] = {
    "model",         "prompt", "file",        "input",      "data",      "n-predict",   "ctx-size", "temp",
    "seed",          "spec",   "model-draft", "kv-on-chip", "kv-policy", "kv-window",   "modes",    "prefill",
    "device-memory", "ranks",  "output-path", "device",     "threads",   "report-json", "record",   "config"};

struct Page {
    std::string_view title, path;
};
constexpr Page kPages[] = {
    {"Start: installation, first run", "docs/start.md"},
    {"Long-context offload: KV cache larger than GPU memory", "docs/tasks/long-context-offload.md"},
    {"Plan your machine: memory and time", "docs/tasks/plan-your-machine.md"},
    {"TriForce's tables, data sets", "docs/tasks/triforce.md"},
    {"H2O summaries, ROUGE", "docs/tasks/h2o-summaries.md"},
    {"H2O streaming, conversations, sessions", "docs/tasks/h2o-streaming.md"},
    {"LCKV, CLA, YOCO: layers that share KV", "docs/tasks/lckv.md"},
    {"Evaluation: perplexity, lm-eval", "docs/tasks/evaluate.md"},
    {"Chat: templates, conversations, documents, OpenAI batch files", "docs/tasks/chat.md"},
    {"Many prompts: batch, parallel samples", "docs/tasks/many-prompts.md"},
    {"Slurm, preemption, srun", "docs/tasks/slurm.md"},
    {"Resume: snapshots, signals", "docs/tasks/resume.md"},
    {"Compare and report: bench, records, plots", "docs/tasks/compare-and-report.md"},
    {"Command line: all flags", "docs/reference/command-line.md"},
    {"Config files", "docs/reference/config-files.md"},
    {"Bench columns", "docs/reference/bench-columns.md"},
    {"Report JSON", "docs/reference/report-json.md"},
    {"Record HDF5", "docs/reference/record-hdf5.md"},
    {"Data sets: token ids in HDF5, models as .h5", "docs/reference/data-hdf5.md"},
    {"Environment variables", "docs/reference/environment.md"},
    {"Exit codes", "docs/reference/exit-codes.md"},
    {"Speculation: speculative decoding", "docs/background/speculation.md"},
    {"Eviction: KV cache policies", "docs/background/eviction.md"},
    {"Layer sharing", "docs/background/layer-sharing.md"},
    {"Guarantees: exactness, precision, sampling", "docs/background/guarantees.md"},
    {"Glossary", "docs/glossary.md"}};

constexpr size_t kColumn = 30;  // of a description that stands on its flag's line

/// In lower case, with '-' for '_', as flags are compared.
std::string folded(std::string_view text) {
    std::string s(text);
    std::transform(s.begin(), s.end(), s.begin(),
                   [](unsigned char c) { return c == '_' ? '-' : static_cast<char>(std::tolower(c)); });
    return s;
}

/// `text` in lines of at most `width` characters; all but the first are indented. A longer word is divided after a '|',
/// or has a line of its own.
std::string wrapped(std::string_view text, size_t at, size_t indent, size_t width) {
    std::string out;
    size_t column = at;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find(' ', begin), text.size());
        std::string_view word = text.substr(begin, end - begin);
        if (column > indent && column + 1 + word.size() > width) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (begin > 0) {
            out += ' ';
            ++column;
        }
        while (column < width && column + word.size() > width) {
            const size_t bar = word.rfind('|', width - column - 1);
            if (bar == std::string_view::npos) break;
            out += word.substr(0, bar + 1);
            out += "\n" + std::string(indent, ' ');
            word.remove_prefix(bar + 1);
            column = indent;
        }
        out += word;
        column += word.size();
        begin = end + 1;
    }
    return out;
}

/// "  -n, --n-predict TOKENS", the description on the same line where it fits or else below, the default, other names.
std::string help_entry(const Flag& flag, size_t width) {
    const std::string canonical = fmt::format("--{}", flag.name);
    std::string head, others;
    for (const std::string_view s : flag.spellings) {
        const bool shown = s == canonical || !s.starts_with("--");
        (shown ? head : others) += fmt::format("{}{}", (shown ? head : others).empty() ? "" : ", ", s);
    }
    head = "  " + head + (flag.is_switch() ? "" : fmt::format(" {}", flag.value));
    std::string text = fmt::format("{} [default: {}]", flag.help, flag.shown_default());
    if (!others.empty()) text += fmt::format(" [also: {}]", others);
    if (head.size() + 2 <= kColumn && kColumn + text.size() <= width) {
        return fmt::format("{:<{}}{}\n", head, kColumn, text);
    }
    constexpr size_t kIndent = 8;
    return wrapped(head, 0, kIndent, width) + "\n" + std::string(kIndent, ' ') +
           wrapped(text, kIndent, kIndent, width) + "\n";
}

}  // namespace

std::string_view about(Command command) {
    switch (command) {
        case Command::kGenerate:
            return "trireme generate: continue a prompt. The text goes to stdout, everything else to stderr.\n";
        case Command::kChat:
            return "trireme chat: a conversation in the terminal, on one KV cache. A document (-f) is read once. "
                   "Requires a model with a chat template, and Python 3 with jinja2.\n";
        case Command::kPipe:
            return "trireme pipe: answer requests on stdin, a JSON object a line, until it ends: continuations, log "
                   "probabilities, token ids. Answers are lines on stdout, in order.\n";
        case Command::kEvaluate:
            return "trireme evaluate: long-context suites for several modes and lengths, as a table with pictures. "
                   "A stopped evaluation continues. Requires Python 3; pictures require matplotlib.\n";
        case Command::kTokenize:
            return "trireme tokenize: print token ids as one JSON array. Reads no weights.\n";
        case Command::kScore:
            return "trireme score: perplexity of a document, whole or in windows; with --data, log probabilities of "
                   "pairs. "
                   "-o FILE writes the log probability of each token.\n";
        case Command::kBatch:
            return "trireme batch: continue many prompts, JSON Lines in and out. An interrupted run continues where it "
                   "stopped. A line may set max_tokens, temperature, top_p, top_k, min_p, stop and seed.\n";
        case Command::kPlan:
            return "trireme plan: memory of each rank, layers on chip, and time per token, for this machine or one "
                   "that "
                   "flags describe. Reads no weights.\n";
        case Command::kDoctor:
            return "trireme doctor: measure memory, link and ranks of this machine. The last line has the flags for "
                   "plan.\n";
        case Command::kBench:
            return "trireme bench: speed of decoding modes, interleaved on the same prompt and prefill. A table on "
                   "stdout.\n";
        case Command::kConvert:
            return "trireme convert: write a model as a folder that transformers reads, or as one .h5 file with "
                   "digests; "
                   "also with another layer map or type. With --tokens: write documents as token ids.\n";
        case Command::kReport:
            return "trireme report: draw pages with plots from files written by --record. Requires Python with h5py "
                   "and "
                   "matplotlib. Reads no model.\n";
    }
    return "";
}

std::string_view examples(Command command) {
    switch (command) {
        case Command::kGenerate:
            return "  trireme generate -m MODEL -p 'Once upon a time' -n 100\n"
                   "  mpirun -n 2 trireme generate -m MODEL -f long.txt -n 200\n"
                   "  trireme generate -m MODEL -f long.txt --spec triforce -md DRAFT\n"
                   "  trireme generate -m MODEL -f long.txt --kv-policy h2o --kv-window 512\n";
        case Command::kChat:
            return "  trireme chat -m MODEL\n"
                   "  trireme chat -m MODEL -f book.txt -c 32768 --spec suffix\n";
        case Command::kPipe:
            return "  echo '{\"prompt\": \"Once\", \"max_tokens\": 20}' | trireme pipe -m MODEL\n";
        case Command::kEvaluate:
            return "  trireme evaluate -m MODEL --suite needle,ruler --lengths 2K -o results\n";
        case Command::kTokenize:
            return "  trireme tokenize -m MODEL -p 'Once upon a time'\n";
        case Command::kScore:
            return "  trireme score -m MODEL -f book.txt --window 2048 --stride 512\n"
                   "  trireme score -m MODEL --data pairs.jsonl -o scores.jsonl\n";
        case Command::kBatch:
            return "  trireme batch -m MODEL --input requests.jsonl -o results.jsonl -n 64\n";
        case Command::kPlan:
            return "  trireme plan -m MODEL -c 131072 --ranks 2 --device-memory 24G\n";
        case Command::kDoctor:
            return "  trireme doctor\n"
                   "  mpirun -n 2 trireme doctor\n";
        case Command::kBench:
            return "  trireme bench -m MODEL -f book.txt --prefill 7680 --modes none,ngram\n"
                   "  trireme bench --config laptop-triforce-1-rank -m MODEL\n";
        case Command::kConvert:
            return "  trireme convert -m MODEL -o model.h5\n"
                   "  trireme convert -m MODEL --tokens books/ -o books.h5\n";
        case Command::kReport:
            return "  trireme report runs.h5 -o pages\n";
    }
    return "";
}

std::string help_text(std::optional<Command> command, std::string_view keyword, size_t width) {
    if (!command && keyword.empty()) return std::string(kOverview);
    const std::string wanted = folded(keyword);
    std::string text, found;
    std::set<std::string_view> listed;
    const auto entry = [&](const Flag& flag) {
        if ((command && !flag.belongs_to(*command)) || listed.contains(flag.name)) return std::string();
        std::string e = help_entry(flag, width);
        const std::string searched = fmt::format("{} {} {} {} {}", fmt::join(flag.spellings, " "), flag.value,
                                                 flag.help, flag.shown_default(), flag.env_name());
        if (folded(searched).find(wanted) == std::string::npos) return std::string();
        listed.insert(flag.name);
        return e;
    };
    if (wanted.empty()) {
        text += wrapped(about(*command), 0, 0, width) + "\nExamples\n" + std::string(examples(*command));
        for (const std::string_view name : kCommon) found += entry(*find_key(name));
        text += "\nCommon flags\n" + found;
    }
    for (const FlagGroup& group : flag_groups()) {
        std::string entries;
        for (const Flag& flag : group.flags) entries += entry(flag);
        if (!entries.empty()) text += fmt::format("\n{}\n{}", group.title, entries);
    }
    std::string others;
    for (const Command c : commands()) {
        if (wanted.empty() || command || folded(about(c)).find(wanted) == std::string::npos) continue;
        others += "  " + wrapped(about(c).substr(0, about(c).size() - 1), 2, 4, width) + "\n";
    }
    if (!others.empty()) text += "\nCommands\n" + std::exchange(others, "");
    for (const Page& page : kPages) {
        if (!wanted.empty() && folded(page.title).find(wanted) != std::string::npos) {
            others += "  " + wrapped(fmt::format("{}: {}", page.path, page.title), 2, 4, width) + "\n";
        }
    }
    if (!others.empty()) text += "\nDocuments\n" + others;
    if (listed.empty()) text += fmt::format("\nNo flag mentions '{}'.\n", keyword);
    return text + "\n" + std::string(kSources);
}

}  // namespace trireme
