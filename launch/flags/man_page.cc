#include "launch/flags/man_page.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "launch/flags/flags.h"
#include "launch/flags/help.h"
#include "runtime/error.h"

namespace trireme {
namespace {

/// Escapes text for roff: every character is literal, '-' can be copied into a shell, and no line begins with a roff
/// request. Line ends become blanks.
std::string roff(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
        switch (c) {
            case '\\':
                out += "\\e";
                break;
            case '-':
                out += "\\-";
                break;
            case '\'':
                out += "\\(aq";
                break;
            case '`':
                out += "\\(ga";
                break;
            case '^':
                out += "\\(ha";
                break;
            case '~':
                out += "\\(ti";
                break;
            case '\n':
                out += ' ';
                break;
            default:
                out += c;
        }
    }
    while (out.ends_with(' ')) out.pop_back();
    return out;
}

std::string bold(std::string_view text) {
    return "\\fB" + roff(text) + "\\fR";
}
std::string italic(std::string_view text) {
    return "\\fI" + roff(text) + "\\fR";
}
std::string item(const std::string& tag, std::string_view what) {
    return fmt::format(".TP\n{}\n{}\n", tag, roff(what));
}

/// The result of about() without the command's name.
std::string_view sentences(Command command) {
    const std::string_view text = about(command);
    return text.substr(text.find(": ") + 2);
}

std::string man_entry(const Flag& flag) {
    std::string tag;
    for (const std::string_view s : flag.spellings) tag += (tag.empty() ? "" : ", ") + bold(s);
    if (!flag.is_switch()) tag += " " + italic(flag.value);
    std::string text = item(tag, flag.help);
    text +=
        fmt::format(".br\nDefault: {}.\nVariable: {}.\nCommands:", roff(flag.shown_default()), roff(flag.env_name()));
    std::string_view before = " ";
    for (const Command c : commands()) {
        if (flag.belongs_to(c)) text += fmt::format("{}{}", std::exchange(before, ", "), name_of(c));
    }
    text += ".\n";
    if (!flag.conflicts.empty()) {
        text += "Not with";
        before = " ";
        for (const std::string_view other : flag.conflicts) {
            text += fmt::format("{}{}", std::exchange(before, ", "), bold(fmt::format("--{}", other)));
        }
        text += ".\n";
    }
    return text;
}

std::string exit_codes() {
    const std::vector<std::pair<Exit, std::string_view>> codes = {
        {Exit::kOk, "done"},
        {Exit::kUsage, "unknown or contradictory flags"},
        {Exit::kData, "the content of a file is not what it has to be"},
        {Exit::kNoInput, "no such file"},
        {Exit::kUnavailable, "a device or a peer is not there"},
        {Exit::kInternal, "a bug, or ranks that disagree"},
        {Exit::kOs, "memory or another limit of the system"},
        {Exit::kCantCreate, "an output exists or cannot be created"},
        {Exit::kIo, "read or write error"},
        {Exit::kTryAgain, "a signal came and a snapshot was written: start the run again with --load-kv"},
        {Exit::kPermission, "permission"},
        {Exit::kConfig, "a value out of range, a prompt beyond the context, the wrong number of ranks"}};
    std::string text;
    for (const auto& [code, what] : codes) text += item(bold(std::to_string(static_cast<int>(code))), what);
    return text + item(bold("130") + ", " + bold("143"), "SIGINT, SIGTERM, to any rank");
}

std::string variables() {
    return item(bold("TRIREME_TIMEOUT_S"), "longest silence of a stream or a peer, in seconds (300)") +
           item(bold("TRIREME_LOG"), "all: every rank logs, not rank 0 alone") +
           item(bold("TRIREME_SHM_SUMS"),
                "0: ranks on one machine add with MPI messages, not through shared memory, and GPUs with NCCL alone. "
                "1: GPUs add short vectors in host memory, without measuring whether that is faster") +
           item(bold("TRIREME_PDL"),
                "1: programmatic dependent launch: a kernel is launched before the kernel ahead of it has ended. "
                "Requires compute capability 9.0 or higher") +
           item(bold("TRIREME_CUDA_LIBS"),
                "folders, with colons between, where cuBLASLt and NCCL are looked for first") +
           item(bold("NO_COLOR"), "no colours in the log") +
           item(bold("TERM"), "dumb: progress as lines, not as a bar");
}

}  // namespace

std::string man_page() {
    std::string text = fmt::format(
        ".\\\" Made by: trireme --man\n"
        ".TH TRIREME 1 \"{}\" \"trireme {}\" \"User Commands\"\n.SH NAME\n"
        "trireme \\- exact decoding of Llama models, on one rank or many\n.SH SYNOPSIS\n",
        commit_date(), version_number());
    for (const Command c : commands())
        text += fmt::format("{} {} [{}]\n.br\n", bold("trireme"), name_of(c), italic("flags"));
    text += fmt::format("{} \\-n {} {} {} [{}]\n", bold("mpirun"), italic("RANKS"), bold("trireme"), italic("command"),
                        italic("flags"));
    text += ".SH DESCRIPTION\n" +
            roff(
                "Decodes requests of a Llama model whose keys and values may be larger than a device's memory: layers "
                "that do not fit are streamed through it, or only some tokens are kept, or tokens are proposed by "
                "something cheaper and checked by the model.") +
            "\n" + roff("Ranks, which mpirun or Slurm starts, share every layer.") + "\n" +
            roff("A generated text goes to stdout, everything else to stderr.") + "\n.SH COMMANDS\n";
    for (const Command c : commands()) text += item(bold(name_of(c)), sentences(c));
    text += item(bold("--help") + "[=" + italic("WORD") + "]",
                 "flags, also after a command; with a word only those that mention it");
    text += item(bold("--version"), "version, commit and libraries");
    text += item(bold("--list-devices"), "what --device may name here");
    text += item(bold("--man"), "this page");
    text += item(bold("--completion bash"), "a script for bash, to be sourced");
    text += ".SH OPTIONS\n" +
            roff(
                "A flag's value is the next word, or follows '='. A flag without a value is a switch: "
                "--flag=off takes it back.") +
            "\n" + roff(kSources) + "\n";
    for (const FlagGroup& group : flag_groups()) {
        text += fmt::format(".SS {}\n", roff(group.title));
        for (const Flag& flag : group.flags) text += man_entry(flag);
    }
    text += ".SH EXIT STATUS\n" + exit_codes() + ".SH ENVIRONMENT\n" +
            roff("Every flag has a variable, named above; an empty one counts as unset. Besides them:") + "\n" +
            variables() + ".SH EXAMPLES\n";
    text += ".nf\n";
    for (const Command c : commands()) {
        for (std::string_view lines = examples(c); !lines.empty(); lines.remove_prefix(lines.find('\n') + 1)) {
            text += roff(lines.substr(2, lines.find('\n') - 2)) + "\n";
        }
    }
    text += ".fi\n";
    return text + ".SH SEE ALSO\n.BR mpirun (1);\n" +
           roff("share/doc/trireme/docs of the installation: start.md is the first page") + "\n";
}

}  // namespace trireme
