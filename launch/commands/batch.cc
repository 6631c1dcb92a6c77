#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/generate.h"
#include "launch/commands/batch_output.h"
#include "launch/commands/batch_requests.h"
#include "launch/commands/commands.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/report/rouge.h"
#include "launch/report/trace_file.h"
#include "launch/run/agreed_status.h"
#include "launch/run/bounded.h"
#include "launch/run/chain.h"
#include "launch/run/outcome.h"
#include "launch/run/request.h"
#include "launch/run/signals.h"
#include "launch/run/spec_costs.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

/// Rank 0's: what there is to do, and what has become of it.
struct Books {
    std::vector<BatchLine> lines;
    std::unique_ptr<BatchOutput> output;
    int64_t wanted = 0;  // requests, those included that are done
    std::vector<Rouge> rouge;
};

Books open_books(const Options& o, const StillWaiting& waiting) {
    Books books;
    books.output = std::make_unique<BatchOutput>(o.output_path, o.force);
    const int64_t done = books.output->done();
    books.lines = read_batch_lines(o, o.limit == 0 ? 0 : std::max(o.limit, done), waiting);
    books.output->require_of(books.lines);
    const auto there = static_cast<int64_t>(books.lines.size());
    books.wanted = o.limit == 0 ? there : std::min(o.limit, there);
    for (int64_t i = 0; i < books.wanted && !o.rouge.empty(); ++i) {
        const BatchLine& line = books.lines[static_cast<size_t>(i)];
        const std::string reference = line.reference(o.rouge);
        require(has_sentences(reference), Exit::kData, "{}: {} is empty, want the text that --rouge compares with",
                line.where, o.rouge);
        if (i < done) books.rouge.push_back(rouge(books.output->text(i), reference));
    }
    log::info("{} requests, {} of them done before", books.wanted, std::min(done, books.wanted));
    return books;
}

std::vector<BatchRequest> left_of(const Books& books, const Options& o, const Engine& engine,
                                  const StillWaiting& waiting) {
    std::vector<BatchRequest> left;
    for (int64_t i = books.output->done(); i < books.wanted; ++i) {
        waiting();
        const BatchLine& line = books.lines[static_cast<size_t>(i)];
        left.push_back({.index = i,
                        .ids = prompt_of(line, o, engine.checkpoint(), engine.longest_context()),
                        .settings = line.settings});
    }
    return left;
}

OrderedJson as_json(const RougeScore& s) {
    return {{"r", s.r}, {"p", s.p}, {"f", s.f}};
}

/// The line of a finished request. The request stands in it as it does in the input.
std::string line_of(Books& books, const Options& o, int64_t index, const Continuation& made, int64_t prompt_tokens,
                    double seconds) {
    const BatchLine& request = books.lines[static_cast<size_t>(index)];
    const bool limited = made.stop == StopReason::kLimit || made.stop == StopReason::kContext;
    const auto dump = [](const OrderedJson& json) {
        return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    };
    const OrderedJson choice = {{"text", made.text}, {"finish_reason", limited ? "length" : "stop"}};
    const OrderedJson result = {{"choices", OrderedJson::array({choice})},
                                {"request_time", seconds},
                                {"prompt_tokens", prompt_tokens},
                                {"completion_tokens", made.ids.size()}};
    std::string line = fmt::format(R"({{"index":{},"request":{},"result":{})", index, request.text, dump(result));
    if (!o.rouge.empty()) {
        const Rouge& r = books.rouge.emplace_back(rouge(made.text, request.reference(o.rouge)));
        line +=
            fmt::format(R"(,"rouge":{})",
                        dump({{"rouge-1", as_json(r.one)}, {"rouge-2", as_json(r.two)}, {"rouge-l", as_json(r.l)}}));
    }
    return line + "}";
}

void log_rouge(const std::vector<Rouge>& all) {
    double one = 0, two = 0, l = 0;
    for (const Rouge& r : all) one += r.one.f, two += r.two.f, l += r.l.f;
    const auto n = static_cast<double>(all.size());
    log::info("rouge over {} texts: Rouge-1 {:.6f}, Rouge-2 {:.6f}, Rouge-l {:.6f} ({} empty)", all.size(), one / n,
              two / n, l / n, std::ranges::count_if(all, &Rouge::empty));
}

/// Continues one request after the other.
class Runner {
  public:
    Runner(const Start& start, const Crew& crew, Engine& engine, SpecCosts costs)
        : start_(start), crew_(crew), engine_(engine), costs_(std::move(costs)) {}

    /// Memory for the longest of the requests, and for the longest prompt, so that all find room in it.
    void measure(const std::vector<BatchRequest>& requests) {
        const Options& o = start_.call.options;
        for (const BatchRequest& r : requests) {
            const int64_t n_predict = r.options(o).n_predict;
            context_ = std::max(context_, positions_of(r.tokens(), n_predict, engine_.longest_context()));
            longest_prompt_ = std::max(longest_prompt_, r.tokens());
        }
        // A window that is a share of a prompt may be too small for a short one: better said now than in its turn.
        crew_.phase([&] {
            for (const BatchRequest& r : requests) {
                bounded_shape(r.options(o), engine_.checkpoint().config(), r.tokens(), /*returns=*/false);
            }
        });
        load(requests.front().options(o), requests.front().tokens());
        warn_of_unused_bounded(o, engine_.bounding(), context_);
        warn_of_unused({o});
    }

    /// What the request's prompt is continued by; nothing if a signal came before its end: then status() says which.
    std::optional<Continuation> run(const BatchRequest& asked, bool first) {
        const Options o = asked.options(start_.call.options);
        if (differs(o, asked.tokens())) load(o, asked.tokens());
        std::optional<Chain> chain;
        crew_.phase([&] { chain.emplace(o, engine_.model(), engine_.proposing(), engine_.device(), costs_); });
        WarmUp warm_up;
        if (chain->wants_costs()) warm_up = [&] { chain->warm_up(crew_, asked.ids.back()); };
        GenerateRequest request = {.prompt = asked.ids, .max_new = o.n_predict, .stops = {.stop = o.stop}};
        if (!o.ignore_eos) request.stops.eos = engine_.checkpoint().eos;
        std::vector<Continuation> made;
        try {
            made = generate(
                chain->decoder(), engine_.checkpoint().tokenizer.get(), request, stats_, {},
                [&](int64_t done, int64_t total) {
                    if (!first) status_ = agreed_status(crew_, 0, {}, 0);
                    if (status_ != 0) throw Interrupted{};
                    if (done == total) remember_signals();  // from here on there is something to keep
                },
                [&](std::span<const int32_t> round) {
                    status_ = agreed_status(crew_, 0, round, chain->digest());
                    return status_ != 0;
                },
                warm_up);
        } catch (const Interrupted&) {
            return std::nullopt;
        }
        costs_ = chain->costs();
        if (made.empty() || made[0].stop == StopReason::kInterrupted) return std::nullopt;
        return std::move(made[0]);
    }

    /// 0, or that of a signal.
    int status() const { return status_; }
    const GenerateStats& stats() const { return stats_; }

  private:
    // Bounded KV may depend on the prompt's length, and on the seed; its memory is made for one of each.
    bool differs(const Options& o, int64_t prompt_tokens) const {
        return prompt_to_load(o, prompt_tokens) != loaded_for_ ||
               (o.bounded.policy == KvPolicy::kRandom && o.seed != loaded_seed_);
    }
    int64_t prompt_to_load(const Options& o, int64_t prompt_tokens) const {
        const bool share = o.bounded.policy != KvPolicy::kFull && o.bounded.window_share > 0;
        return share ? prompt_tokens : longest_prompt_;
    }

    void load(const Options& o, int64_t prompt_tokens) {
        Start own = start_;
        own.call.options = o;
        loaded_for_ = prompt_to_load(o, prompt_tokens);
        engine_.load(own, crew_, context_, loaded_for_);
        loaded_seed_ = o.seed;
    }

    const Start& start_;
    const Crew& crew_;
    Engine& engine_;
    SpecCosts costs_;  // of the first request's, for all
    int64_t context_ = 0, longest_prompt_ = 0, loaded_for_ = 0;
    std::optional<uint64_t> loaded_seed_;
    GenerateStats stats_;
    int status_ = 0;
};

/// Returns 0, or the status of a signal.
int run_requests(const Start& start, const Crew& crew, Books& books) {
    const Options& o = start.call.options;
    SpecCosts costs;
    crew.first_only([&] { costs = given_costs(o); });
    Engine engine(start, crew);
    share(costs, crew.comm());
    std::vector<BatchRequest> left;
    crew.first_only_waiting([&](const StillWaiting& waiting) { left = left_of(books, o, engine, waiting); });
    left = shared(crew, left);
    Runner runner(start, crew, engine, std::move(costs));
    runner.measure(left);
    crew.first_only([&] { books.output->begin(); });
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    for (const BatchRequest& request : left) {
        const uint64_t begin = trace::now();
        const std::optional<Continuation> made = runner.run(request, /*first=*/&request == &left.front());
        if (!made) break;
        const double seconds = static_cast<double>((trace::now() - begin) / 1000) / 1e6;
        crew.first_only(
            [&] { books.output->append(line_of(books, o, request.index, *made, request.tokens(), seconds)); });
        const GenerateStats& s = runner.stats();
        log::info("request {} of {}: {} tokens, prefill {:.1f} ms, then {} tokens, {:.1f} tok/s, {}", request.index + 1,
                  left.back().index + 1, s.prompt_tokens, s.prefill_ms, s.new_tokens,
                  s.tpot_ms > 0 ? 1e3 / s.tpot_ms : 0, name_of(made->stop));
        if (runner.status() != 0) break;
    }
    write_trace(o, crew);
    return runner.status();
}

}  // namespace

void run_batch(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    Books books;
    int64_t left = 0;
    crew.first_only_waiting([&](const StillWaiting& waiting) {
        probe_outputs(o);
        books = open_books(o, waiting);
        left = books.wanted - books.output->done();
    });
    left = crew.comm().gather_values(left).front();
    const int status = left > 0 ? run_requests(start, crew, books) : 0;
    if (status > 128 && crew.first()) {
        log::info("stopped by signal {}; the same command goes on behind what is done", status - 128);
    }
    if (!books.rouge.empty()) log_rouge(books.rouge);
    if (status != 0) throw Stopped{status};
}

}  // namespace trireme
