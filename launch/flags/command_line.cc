#include "launch/flags/command_line.h"

#include <algorithm>

#include "launch/flags/nearest.h"
#include "launch/flags/sources.h"
#include "runtime/error.h"

namespace trireme {
namespace {

// Files and environments serve all commands: a flag of another command is checked, but has no effect.
void assign_all(Command command, Options& options, const std::vector<Assignment>& assignments) {
    Options others;
    for (const Assignment& a : assignments) a.flag->set(a.flag->belongs_to(command) ? options : others, a.setting);
}

void require_inputs(Command command, const Options& o) {
    if (command == Command::kDoctor) return;
    if (command == Command::kReport) {
        require(!o.records.empty(), Exit::kUsage, "trireme report: no records; give files that --record has written");
        require(!o.output_path.empty(), Exit::kUsage, "trireme report: no output; give -o FOLDER (--output-path)");
        return;
    }
    if (command == Command::kEvaluate) {
        require(!o.evaluation.suites.empty(), Exit::kUsage, "trireme evaluate: no suite; give --suite LIST");
        require(!o.output_path.empty(), Exit::kUsage, "trireme evaluate: no output; give -o FOLDER (--output-path)");
    }
    require(!o.model.empty(), Exit::kUsage, "trireme {}: no model; give -m PATH", name_of(command));
    require(o.n_predict != 0 || (command == Command::kGenerate && o.print == Print::kPrompt), Exit::kConfig,
            "-n 0: generates nothing; want 1 or more, or generate --print prompt");
    require(o.temperatures.size() < 2 || command == Command::kBench, Exit::kConfig,
            "--temp {}: a list of temperatures is for bench; want one", find_key("temp")->show(o));
    if (command == Command::kPlan) return;
    if (command == Command::kConvert) {
        require(!o.output_path.empty(), Exit::kUsage, "trireme convert: no output; give -o {} (--output-path)",
                o.tokens.empty() ? "FOLDER or -o FILE.h5" : "FILE.h5");
        return;
    }
    if (command == Command::kBatch) {
        require(!o.input.empty() || o.prompt_from == PromptFrom::kData, Exit::kUsage,
                "trireme batch: no requests; give --input FILE, a JSON object a line, or texts with --data PATH");
        require(!o.output_path.empty(), Exit::kUsage, "trireme batch: no output; give -o FILE (--output-path)");
        return;
    }
    if (command == Command::kChat || command == Command::kPipe || command == Command::kEvaluate) return;
    require(o.prompt_from != PromptFrom::kNowhere || !o.load_kv.empty(), Exit::kUsage,
            "trireme {}: no text; give -p TEXT or -f FILE{}", name_of(command),
            command == Command::kTokenize ? ""
            : command == Command::kBench  ? ", ids with --prompt-ids FILE, or several with --data PATH"
                                          : ", or ids with --prompt-ids FILE");
}

// A batch continues requests or texts. Files and variables may name both, for two commands; batch then cannot choose.
void require_one_input(Command command, const std::vector<Assignment>& source) {
    const auto given = [&](std::string_view name) {
        return std::ranges::find(source, name, [](const Assignment& a) { return a.flag->name; });
    };
    const auto input = given("input"), data = given("data");
    require(command != Command::kBatch || input == source.end() || data == source.end(), Exit::kUsage,
            "{}: contradicts {}; give one of them", data == source.end() ? "" : data->setting.where,
            input == source.end() ? "" : input->setting.where);
}

}  // namespace

Invocation parse_command_line(std::span<const std::string> words, std::span<const std::string> environment) {
    Invocation call;
    if (words.empty())
        fail(Exit::kUsage,
             "no command; want generate, chat, batch, pipe, tokenize, score, bench, plan, convert, report, evaluate or "
             "doctor, see "
             "trireme "
             "--help");
    const std::string& first = words.front();
    if (first == "--help" || first == "-h" || first == "help" || first.starts_with("--help=")) {
        call.what = Invocation::What::kHelp;
        if (first.starts_with("--help=")) call.help_keyword = first.substr(first.find('=') + 1);
        return call;
    }
    if (first == "--version" || first == "--list-devices" || first == "--man") {
        require(words.size() == 1, Exit::kUsage, "{}: takes no value, found '{}' after it", first, words.back());
        call.what = first == "--version"        ? Invocation::What::kVersion
                    : first == "--list-devices" ? Invocation::What::kListDevices
                                                : Invocation::What::kManPage;
        return call;
    }
    if (first == "--completion") {
        require(words.size() == 2 && words.back() == "bash", Exit::kUsage,
                "--completion: want a shell after it, and nothing else: trireme --completion bash");
        call.what = Invocation::What::kCompletion;
        return call;
    }
    std::vector<std::string> names = {"--help", "--version", "--list-devices", "--man", "--completion"};
    for (const Command c : commands()) {
        if (first == name_of(c)) call.command = c;
        names.emplace_back(name_of(c));
    }
    if (!call.command) {
        const std::string best = nearest(first, names);
        fail(Exit::kUsage, "'{}': no such command; {}", first,
             best.empty() ? "want generate, chat, batch, pipe, tokenize, score, bench, plan, convert, report, evaluate "
                            "or doctor, see "
                            "trireme --help"
                          : fmt::format("the nearest is {}", best));
    }

    const CommandLine line = read_words(*call.command, words.subspan(1));
    if (line.help) {
        call.what = Invocation::What::kHelp;
        call.help_keyword = line.help_keyword;
        return call;
    }
    call.warnings = misspelt_variables(environment);
    call.warnings.insert(call.warnings.end(), line.warnings.begin(), line.warnings.end());
    const std::vector<Assignment> variables = read_environment(environment);
    Options named;  // only used to find the INI file: from the command line, else the environment
    assign_all(*call.command, named, variables);
    assign_all(*call.command, named, line.assignments);
    const std::vector<Assignment> file =
        named.config.empty() ? std::vector<Assignment>() : read_ini(find_config(named.config));
    // A conversation has the terminal for itself.
    if (call.command == Command::kChat) call.options.log_level = log::Level::kWarn;
    for (const std::vector<Assignment>* source : {&file, &variables, &line.assignments}) {
        require_one_input(*call.command, *source);
        assign_all(*call.command, call.options, *source);
    }
    require_inputs(*call.command, call.options);
    return call;
}

}  // namespace trireme
