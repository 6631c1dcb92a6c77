#include "launch/program.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <unistd.h>

#include "dist/make_comm.h"
#include "dist/rank_env.h"
#include "launch/commands/commands.h"
#include "launch/flags/completion.h"
#include "launch/flags/help.h"
#include "launch/flags/man_page.h"
#include "launch/flags/modes.h"
#include "launch/flags/sources.h"
#include "launch/report/output.h"
#include "launch/run/binding.h"
#include "launch/run/model_path.h"
#include "launch/run/once.h"
#include "launch/run/outcome.h"
#include "launch/run/placement.h"
#include "launch/run/progress.h"
#include "launch/run/signals.h"
#include "launch/run/standard_streams.h"
#include "runtime/env.h"
#include "runtime/log.h"
#include "runtime/random.h"

namespace trireme {
namespace {

RankEnv this_rank() {
    return rank_env([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

void warn(const std::vector<std::string>& warnings) {
    for (const std::string& w : warnings) log::warn("{}", w);
}

// Prints help, version, list of devices, man page or completion. Needs neither ranks nor a model.
void print_about(const Invocation& call, const std::vector<std::string>& environment) {
    TextOut out(STDOUT_FILENO);
    switch (call.what) {
        case Invocation::What::kHelp:
            out.write(help_text(call.command, call.help_keyword, terminal_width(STDOUT_FILENO)));
            break;
        case Invocation::What::kVersion:
            out.write(version_text());
            break;
        case Invocation::What::kManPage:
            out.write(man_page());
            break;
        case Invocation::What::kCompletion:
            out.write(bash_completion());
            break;
        case Invocation::What::kListDevices:
            warn(misspelt_variables(environment));
            out.write(list_devices());
            break;
        case Invocation::What::kRun:
            break;
    }
}

// Binds this rank to its cores and sets its number of threads. Must run before any thread starts, including MPI's,
// since threads inherit the binding.
void bind_cores(Start& start, const RankEnv& rank) {
    if (*start.call.command == Command::kTokenize || *start.call.command == Command::kPlan ||
        *start.call.command == Command::kConvert)
        return;
    const Options& o = start.call.options;
    const Placement placement = place(rank, read_node(rank), o.bind, o.threads);
    const bool bound = bind_to(placement.cpus);
    start.threads = placement.threads;
    if (!placement.warning.empty()) start.call.warnings.push_back(placement.warning);
    // On a CPU a core copies streamed layers. One is reserved for them if flags allow layers to be streamed. (The plan,
    // which decides that, is made after the threads are counted.)
    const auto may_stream = [&](int64_t on_chip) {
        return on_chip >= 0 || (on_chip == PlanInput::kAuto && o.device_memory > 0);
    };
    bool streams = may_stream(o.kv_on_chip);
    for (const Options& chain : chains_of(*start.call.command, o)) streams = streams || may_stream(chain.kv_on_chip);
    if (streams && !o.device.starts_with("cuda") && o.threads == 0 && start.threads > 1) --start.threads;
    start.local_rank = rank.local_rank;
    start.local_ranks = rank.local_size;
    start.placement = bound ? placement.line : placement.line + "; but the system refused";
    if (start.threads < placement.threads) start.placement += "; one core is left to copies (-t)";
}

// Rank 0 draws the seed for all ranks, so that all use the same random numbers.
void draw_seed(Start& start, const RankGroup& rank_group) {
    uint64_t drawn = 0;
    rank_group.first_only([&] { drawn = drawn_by_system("--seed -1"); });
    drawn = rank_group.comm().gather_values(drawn).front();
    start.seed_drawn = !start.call.options.seed;
    if (start.seed_drawn) start.call.options.seed = drawn;
}

void run_command(const Start& start, const RankGroup& rank_group) {
    rank_group.phase([&] {
        const int64_t wanted = start.call.options.tensor_parallel, ranks = rank_group.comm().size();
        const bool planned = *start.call.command == Command::kPlan;  // a plan assumes this number of ranks
        require(wanted == 0 || wanted == ranks || planned, Exit::kConfig,
                "--tensor-parallel-size {}: the run has {} rank{}; start it with mpirun -n {}", wanted, ranks,
                ranks == 1 ? "" : "s", wanted);
    });
    switch (*start.call.command) {
        case Command::kGenerate:
            return run_generate(start, rank_group);
        case Command::kChat:
            return run_chat(start, rank_group);
        case Command::kTokenize:
            return run_tokenize(start, rank_group);
        case Command::kScore:
            return run_score(start, rank_group);
        case Command::kBench:
            return run_bench(start, rank_group);
        case Command::kBatch:
            return run_batch(start, rank_group);
        case Command::kPipe:
            return run_pipe(start, rank_group);
        case Command::kPlan:
            return run_plan(start, rank_group);
        case Command::kDoctor:
            return run_doctor(start, rank_group);
        case Command::kConvert:
            return run_convert(start, rank_group);
        case Command::kReport:
        case Command::kEvaluate:
            break;  // no ranks were started for it
    }
}

constexpr std::chrono::milliseconds kHeadStart(100);

/// Ends the run after a signal that came before any output: rank 0 logs one line, and all ranks exit with the signal's
/// code. The signal may have reached one rank only; when that one exits, the launcher ends the others by a signal.
/// Ranks other than 0 therefore wait for kHeadStart first (LeaveOnSignal's delay), so that rank 0 can log its line.
/// abort() may hang while the launcher is already ending the ranks: after kHeadStart the process exits without it.
void exit_on_signal(int number, Comm& comm) {
    const ProgressSink sink = stderr_progress(true);
    if (comm.rank() == 0 && sink.terminal) sink.draw("\r\033[K");
    log::info("stopped by signal {}: there is no new output yet", number);
    std::thread([number] {
        std::this_thread::sleep_for(kHeadStart);
        _exit(128 + number);
    }).detach();
    comm.abort(static_cast<Exit>(128 + number));
}

}  // namespace

int run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
    Start start;
    start.command_line = words;
    begin_run();
    RankEnv launched;
    const Outcome parsed = attempt([&] {
        hold_standard_streams();
        ignore_signals_of_writes();
        launched = this_rank();
        env();
        start.call = parse_command_line(words, environment);
        if (launched.rank == 0) require_stdout();
        if (start.call.what == Invocation::What::kRun && *start.call.command == Command::kReport) {
            warn(start.call.warnings);
            if (launched.rank == 0) run_report(start.call.options);
        } else if (start.call.what == Invocation::What::kRun && *start.call.command == Command::kEvaluate) {
            warn(start.call.warnings);
            require(launched.size <= 1, Exit::kUsage,
                    "trireme evaluate: starts its own ranks; leave mpirun out and give -tp {}", launched.size);
            start.call.options.model = model_path(start.call.options.model);
            run_evaluate(start.call.options);
        } else if (start.call.what == Invocation::What::kRun) {
            bind_cores(start, launched);
        } else if (launched.rank == 0) {
            print_about(start.call, environment);
        }
    });
    const bool in_python = start.call.command == Command::kReport || start.call.command == Command::kEvaluate;
    if (parsed.status == 0 && (in_python || start.call.what != Invocation::What::kRun)) return 0;

    std::unique_ptr<Comm> comm;
    const Outcome outcome = attempt([&] {
        comm = make_comm();
        log::configure(comm->rank(), comm->size(), start.call.options.log_level);
        const LeaveOnSignal leave(comm->rank() == 0 ? kHeadStart * 0 : kHeadStart,
                                  [&](int number) { exit_on_signal(number, *comm); });
        const RankGroup rank_group(*comm);
        rank_group.phase([&] {
            warn(parsed.status == 0 ? start.call.warnings : misspelt_variables(environment));
            require(parsed.status == 0, static_cast<Exit>(parsed.status), "{}", parsed.message);
        });
        rank_group.phase([&] {
            Options& named = start.call.options;
            for (std::string* path : {&named.model, &named.model_draft, &named.tokenizer}) {
                if (!path->empty()) *path = model_path(*path);
            }
        });
        // Commands with chains use random numbers, and so does any command whose policy draws scores.
        const Options& o = start.call.options;
        if (!chains_of(*start.call.command, o).empty() || row_of(o.eviction.policy).drawn) {
            draw_seed(start, rank_group);
        }
        run_command(start, rank_group);
    });
    if (outcome.status == 0) return 0;

    // Ranks that fail without an agreement often fail for the same reason. Rank 0 then prints the error for all: when
    // it exits, mpirun ends the others within about a second, before they print theirs.
    const int rank = comm ? comm->rank() : launched.rank;
    if (!outcome.agreed && rank != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (!outcome.message.empty() && !(outcome.agreed && rank != 0)) print_error(outcome.message);
    if (!outcome.agreed && comm && comm->size() > 1) comm->abort(static_cast<Exit>(outcome.status));
    return outcome.status;
}

}  // namespace trireme
