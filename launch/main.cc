#include <chrono>
#include <cstdlib>
#include <malloc.h>
#include <memory>
#include <string>
#include <sys/random.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "dist/make_comm.h"
#include "dist/rank_env.h"
#include "launch/commands/commands.h"
#include "launch/flags/help.h"
#include "launch/flags/sources.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/run/binding.h"
#include "launch/run/outcome.h"
#include "launch/run/placement.h"
#include "launch/run/signals.h"
#include "launch/run/standard_streams.h"
#include "runtime/env.h"
#include "runtime/log.h"

namespace trireme {
namespace {

RankEnv this_rank() {
    return rank_env([](const char* name) { return static_cast<const char*>(std::getenv(name)); });
}

void warn(const std::vector<std::string>& warnings) {
    for (const std::string& w : warnings) log::warn("{}", w);
}

// What needs no ranks and no model.
void print_about(const Invocation& call, const std::vector<std::string>& environment) {
    TextOut out(STDOUT_FILENO);
    switch (call.what) {
        case Invocation::What::kHelp:
            out.write(help_text(call.command, call.help_keyword));
            break;
        case Invocation::What::kVersion:
            out.write(version_text());
            break;
        case Invocation::What::kListDevices:
            warn(misspelt_variables(environment));
            out.write(list_devices());
            break;
        case Invocation::What::kRun:
            break;
    }
}

// Before any thread is started, MPI's included: threads inherit the binding.
void settle(Start& start, const RankEnv& rank) {
    if (*start.call.command == Command::kTokenize || *start.call.command == Command::kPlan) return;
    const Options& o = start.call.options;
    const Placement placement = place(rank, read_node(rank), o.bind, o.threads);
    const bool bound = bind_to(placement.cpus);
    start.threads = placement.threads;
    if (!placement.warning.empty()) start.call.warnings.push_back(placement.warning);
    // On a CPU a core has to do the copies of streamed layers. Whether there are any is planned only after the threads
    // have been started, so flags decide.
    const bool streams = o.kv_on_chip >= 0 || (o.kv_on_chip == PlanInput::kAuto && o.device_memory > 0);
    if (streams && !o.device.starts_with("cuda") && o.threads == 0 && start.threads > 1) --start.threads;
    start.local_rank = rank.local_rank;
    start.local_ranks = rank.local_size;
    start.placement = bound ? placement.line : placement.line + "; but the system refused";
    if (start.threads < placement.threads) start.placement += "; one core is left to copies (-t)";
}

// Rank 0 draws for all: every rank then computes the same numbers from it.
void draw_seed(Start& start, const Crew& crew) {
    uint64_t drawn = 0;
    crew.first_only([&] {
        require(::getrandom(&drawn, sizeof drawn, 0) == sizeof drawn, Exit::kOs,
                "--seed -1: the system draws no number");
    });
    drawn = crew.comm().gather_values(drawn).front();
    start.seed_drawn = !start.call.options.seed;
    if (start.seed_drawn) start.call.options.seed = drawn;
}

void run_command(const Start& start, const Crew& crew) {
    crew.phase([&] {
        const int64_t wanted = start.call.options.tensor_parallel, ranks = crew.comm().size();
        require(wanted == 0 || wanted == ranks, Exit::kConfig,
                "--tensor-parallel-size {}: the run has {} rank{}; start it with mpirun -n {}", wanted, ranks,
                ranks == 1 ? "" : "s", wanted);
    });
    switch (*start.call.command) {
        case Command::kGenerate:
            return run_generate(start, crew);
        case Command::kTokenize:
            return run_tokenize(start, crew);
        case Command::kScore:
            return run_score(start, crew);
        case Command::kPlan:
            return run_plan(start, crew);
        case Command::kDoctor:
            return run_doctor(start, crew);
    }
}

constexpr std::chrono::milliseconds kHeadStart(100);

/// A signal came before there is anything to keep: rank 0 writes one line, and all ranks leave with the signal's code.
/// It may have reached this rank alone: every rank that got it asks the launcher to end the run, which reaches the
/// others as a signal. The other ranks do so a little later than rank 0, so that its line is written. A launcher that
/// is ending the ranks already may not answer: then the rank exits by itself.
void leave_for(int number, Comm& comm) {
    const ProgressSink sink = stderr_progress(true);
    if (comm.rank() == 0 && sink.terminal) sink.draw("\r\033[K");
    log::info("stopped by signal {}: there is no output yet", number);
    std::thread([number] {
        std::this_thread::sleep_for(kHeadStart);
        _exit(128 + number);
    }).detach();
    comm.abort(static_cast<Exit>(128 + number));
}

int run(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
    Start start;
    start.command_line = words;
    RankEnv launched;
    const Outcome parsed = attempt([&] {
        hold_standard_streams();
        ignore_signals_of_writes();
        launched = this_rank();
        env();
        start.call = parse_command_line(words, environment);
        if (launched.rank == 0) require_stdout();
        if (start.call.what == Invocation::What::kRun) {
            settle(start, launched);
        } else if (launched.rank == 0) {
            print_about(start.call, environment);
        }
    });
    if (parsed.status == 0 && start.call.what != Invocation::What::kRun) return 0;

    std::unique_ptr<Comm> comm;
    const Outcome outcome = attempt([&] {
        comm = make_comm();
        log::configure(comm->rank(), comm->size(), start.call.options.log_level);
        const LeaveOnSignal leave(comm->rank() == 0 ? kHeadStart * 0 : kHeadStart,
                                  [&](int number) { leave_for(number, *comm); });
        const Crew crew(*comm);
        crew.phase([&] {
            warn(parsed.status == 0 ? start.call.warnings : misspelt_variables(environment));
            require(parsed.status == 0, static_cast<Exit>(parsed.status), "{}", parsed.message);
        });
        if (*start.call.command == Command::kGenerate) draw_seed(start, crew);
        run_command(start, crew);
    });
    if (outcome.status == 0) return 0;

    // Ranks that fail without having agreed on it often fail for the same reason. Rank 0 then writes the line for all;
    // its end makes mpirun end the others, which takes about a second.
    const int rank = comm ? comm->rank() : launched.rank;
    if (!outcome.agreed && rank != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (!outcome.message.empty() && !(outcome.agreed && rank != 0)) print_error(outcome.message);
    if (!outcome.agreed && comm && comm->size() > 1) comm->abort(static_cast<Exit>(outcome.status));
    return outcome.status;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
    // Where addresses are limited (ulimit -v), a heap for each thread would reserve 64 MiB of them.
    if (rlimit addresses = {}; ::getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY) {
        ::mallopt(M_ARENA_MAX, 1);
    }
    std::vector<std::string> environment;
    for (char** e = environ; *e != nullptr; ++e) environment.emplace_back(*e);
    return trireme::run({argv + 1, argv + argc}, environment);
}
