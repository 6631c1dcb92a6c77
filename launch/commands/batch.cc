#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "launch/commands/batch_runs.h"
#include "launch/commands/batch_state.h"
#include "launch/commands/commands.h"
#include "launch/record/run_record.h"
#include "launch/report/output.h"
#include "launch/report/trace_file.h"
#include "launch/run/chain.h"
#include "launch/run/empty_answer.h"
#include "launch/run/outcome.h"
#include "launch/run/progress.h"
#include "launch/run/settings.h"
#include "launch/run/side_by_side.h"
#include "launch/run/spec_costs.h"
#include "model/files/store/digest.h"
#include "model/tokenizer/chat_template.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Adds the chat template's digest to the settings, if a request uses it.
void add_template(BatchState& books, const Options& o) {
    const bool used = o.chat || std::ranges::any_of(books.lines, [](const BatchLine& line) {
                          return line.object.is_object() && line.object.contains("messages");
                      });
    const std::optional<ChatTemplate> found = used ? read_chat_template(o.tokenizer_path()) : std::nullopt;
    if (!found) return;
    books.settings.emplace_back("chat template", hex_digest(found->source + found->with_tools));
}

/// Writes the lines of requests that cannot be run, if there are no others.
void append_only_bad(BatchState& books) {
    if (books.written == books.wanted) return;
    books.output->begin();
    append_bad(books, books.wanted);
}

/// Runs the open requests. Returns 0, or the status of a signal.
int run_requests(const Start& start, const RankGroup& rank_group, BatchState& books) {
    const Options& o = start.call.options;
    SpecCosts costs;
    rank_group.first_only([&] { costs = given_costs(o); });
    Engine engine(start, rank_group);
    share(costs, rank_group.comm());
    std::vector<BatchRequest> left;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        books.settings = deciding_settings(Command::kBatch, engine.settings(), start.seed_drawn);
        add_template(books, o);
        books.output->require_made_with(books.settings);
        left = left_of(books, o, engine, waiting);
    });
    left = shared(rank_group, left);
    if (left.empty()) {
        rank_group.first_only([&] { append_only_bad(books); });
        return 0;
    }
    RunLog log(o, rank_group.comm().rank(), rank_group.comm().size());
    const int64_t last = left.back().index, requests = std::ssize(left);
    const uint64_t begin = trace::now();
    int64_t finished = 0;
    const OnBatchDone done = [&](const BatchRequest& request, const BatchDone& d) {
        rank_group.first_only([&] {
            append_result(books, request.index, line_of(books, o, request.index, d.made, request.tokens(), d.seconds));
            warn_of_empty_answer(o, d.made);
        });
        const int64_t behind = std::ssize(d.made.ids) - 1;
        log.done({.text = request.index,
                  .sample = 0,
                  .side_by_side = 1,
                  .prompt_tokens = request.tokens(),
                  .new_tokens = std::ssize(d.made.ids),
                  .prefill_ns = ns_of(d.prefill_ms),
                  .ttft_ns = -1,
                  .decode_ns = d.tok_s > 0 ? ns_of(static_cast<double>(behind) / d.tok_s * 1e3) : -1});
        ++finished;
        const double each = trace::ms_since(begin) * 1e-3 / static_cast<double>(finished);
        const auto more = requests - finished;
        log::info("request {} of {}: {} tokens, prefill {:.1f} ms, then {} tokens, {:.1f} tok/s, {}{}",
                  request.index + 1, last + 1, request.tokens(), d.prefill_ms, d.made.ids.size(), d.tok_s,
                  name_of(d.made.stop),
                  more > 0 ? fmt::format("; about {} left", duration(each * static_cast<double>(more))) : "");
    };
    BatchRuns runs(start, rank_group, engine, std::move(costs), log);
    runs.prepare(std::move(left));
    rank_group.first_only([&] { books.output->begin(); });
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    const int status = runs.run(done);
    if (status == 0) rank_group.first_only([&] { append_bad(books, books.wanted); });
    write_trace(o, rank_group);
    write_record(rank_group, {.start = start, .engine = engine, .log = log, .status = status});
    return status;
}

}  // namespace

void run_batch(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.phase([&] { require_side_by_side(o); });
    BatchState books;
    int64_t work = 0;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        probe_outputs(o);
        books = open_books(o, waiting);
        work = std::max(books.wanted, books.output->done());
    });
    work = rank_group.comm().gather_values(work).front();
    const int status = work > 0 ? run_requests(start, rank_group, books) : 0;
    if (status > 128 && rank_group.first()) {
        log::info("stopped by signal {}; the same command{} continues after what is done", status - 128,
                  o.force ? " without --force" : "");
    }
    if (books.failed > 0)
        log::warn("{} of {} requests were not run: their result lines have the errors", books.failed, books.wanted);
    if (!books.rouge.empty()) log_rouge(books.rouge);
    if (status != 0) throw Stopped{status};
}

}  // namespace trireme
