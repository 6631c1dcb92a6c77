#include <algorithm>
#include <bit>
#include <exception>
#include <optional>
#include <span>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "launch/commands/batch_runs.h"
#include "launch/commands/commands.h"
#include "launch/commands/pair_scorer.h"
#include "launch/commands/pipe_requests.h"
#include "launch/report/output.h"
#include "launch/report/trace_file.h"
#include "launch/run/agreed_status.h"
#include "launch/run/engine.h"
#include "launch/run/line_reader.h"
#include "launch/run/outcome.h"
#include "launch/run/side_by_side.h"
#include "launch/run/signals.h"
#include "launch/run/spec_costs.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Kind = PipeRequest::Kind;

constexpr int64_t kRoom = 2048;  // tokens of a sequence before longer ones come, without -c

class Pipe {
  public:
    Pipe(const Start& start, const RankGroup& rank_group)
        : options_(start.call.options),
          rank_group_(rank_group),
          engine_(start, rank_group),
          log_(options_, rank_group.comm().rank(), rank_group.comm().size()),
          chat_(options_.tokenizer_path()),
          scorer_(engine_) {
        SpecCosts costs;
        rank_group.first_only([&] { costs = given_costs(options_); });
        share(costs, rank_group.comm());
        runs_.emplace(start, rank_group, engine_, std::move(costs), log_);
        make_room(std::min(kRoom, engine_.longest_context()), 1);
        runs_->rounds().add({.status = [&] { return rank_group_.first() && out_.closed() ? kReaderGone : 0; }});
        remember_signals();
    }

    /// Serves requests until stdin ends. Returns the status with which the program ends.
    int serve() {
        const Tokenizer& tokenizer = *engine_.checkpoint().tokenizer;
        const auto piece = [&](int32_t id) { return id < 0 ? OrderedJson() : OrderedJson(tokenizer.piece(id)); };
        say({{"model", options_.model},
             {"context", engine_.longest_context()},
             {"vocab", engine_.checkpoint().config().vocab},
             {"bos", piece(tokenizer.bos())},
             {"eos", piece(tokenizer.eos())}});
        for (;;) {
            std::vector<PipeRequest> mine;
            rank_group_.first_only_waiting([&](const StillWaiting& waiting) { mine = next(waiting); });
            const std::vector<PipeRequest> group = shared(rank_group_, std::move(mine));
            if (group.empty()) return rank_group_.comm().gather_values(ended_).front();
            if (const int status = serve(group); status != 0) return status;
        }
    }

  private:
    /// The requests that are there; none at the end. Rank 0 alone.
    std::vector<PipeRequest> next(const StillWaiting& waiting) {
        const std::vector<LineReader::Line> lines = in_.read([&] {
            waiting();
            if (remembered_signal() != 0) ended_ = 128 + remembered_signal();
            return ended_ == 0 && !out_.closed();
        });
        std::vector<PipeRequest> group;
        for (const LineReader::Line& line : lines) {
            waiting();
            group.push_back(read_pipe_request(line.text, index_++, options_, engine_.checkpoint(), chat_,
                                              engine_.longest_context()));
        }
        return group;
    }

    /// Answers requests in order. Consecutive continuations are decoded together. Returns 0, or the status that ends
    /// the run.
    int serve(std::span<const PipeRequest> group) {
        while (!group.empty()) {
            const bool texts = group.front().kind == Kind::kContinue;
            const auto other =
                std::ranges::find_if(group, [&](const PipeRequest& r) { return (r.kind == Kind::kContinue) != texts; });
            const auto run = group.first(static_cast<size_t>(other - group.begin()));
            group = group.subspan(run.size());
            if (texts) {
                if (const int status = decode(run); status != 0) return status;
                continue;
            }
            for (const PipeRequest& r : run) {
                if (r.kind == Kind::kAnswered) {
                    rank_group_.first_only([&] { out_.write(r.answer); });
                } else {
                    score(r);
                }
            }
        }
        return 0;
    }

    int decode(std::span<const PipeRequest> group) {
        std::vector<BatchRequest> requests;
        int64_t context = 0;
        for (const PipeRequest& r : group) {
            requests.push_back(r.continued);
            const int64_t more = r.continued.options(options_).n_predict;
            context = std::max(context, more < 0 ? engine_.longest_context() : r.continued.tokens() + more);
        }
        scorer_.forget();
        try {
            make_room(context, std::ssize(requests));
            runs_->prepare(std::move(requests));
        } catch (const Error& e) {  // on all ranks alike
            for (const PipeRequest& r : group) refuse(r, e);
            return 0;
        }
        return runs_->run([&](const BatchRequest& request, const BatchDone& d) { answer(request, d); },
                          [&](const BatchRequest& request, std::string_view text) {
                              if (!text.empty()) stream({{"index", request.index}, {"delta", text}});
                          });
    }

    void answer(const BatchRequest& request, const BatchDone& d) {
        say({{"index", request.index},
             {"text", d.made.text},
             {"finish_reason", finish_reason(d.made.stop)},
             {"prompt_tokens", request.tokens()},
             {"completion_tokens", d.made.ids.size()},
             {"seconds", d.seconds}});
    }

    void score(const PipeRequest& r) {
        const auto n = static_cast<int64_t>(r.pair.ids.size());
        const int64_t longest = engine_.longest_context();
        try {
            int64_t most = r.windows.empty() ? n : 1;
            for (const ScoreWindow& w : r.windows) most = std::max(most, w.end - w.begin);
            make_room(std::min(most, longest), 1);
            OrderedJson line = {{"index", r.index}};
            if (r.kind == Kind::kPair) {
                const Score made = scorer_.score(r.pair);
                line["logprob"] = made.sum;
                line["greedy"] = made.greedy;
                line["tokens"] = n - r.pair.begin;
                if (r.pair.truncated) line["truncated"] = true;
            } else {
                scorer_.forget();
                const Score made =
                    trireme::score(engine_.model(), r.pair.ids, r.windows, engine_.eviction().evicts() ? 1 : INT64_MAX);
                line["logprob"] = made.sum;
                line["tokens"] = made.logprobs.size();
            }
            say(line);
        } catch (const Error& e) {
            if (e.code() != Exit::kData && e.code() != Exit::kConfig) throw;
            refuse(r, e);
        }
    }

    /// Answers with an error that all ranks have; others end the run.
    void refuse(const PipeRequest& r, const Error& e) {
        if (e.code() != Exit::kData && e.code() != Exit::kConfig) throw;
        say({{"index", r.index}, {"error", e.what()}});
    }

    /// Writes an answer. All ranks throw if it cannot be written.
    void say(const OrderedJson& line) {
        rank_group_.first_only([&] {
            if (failure_) std::rethrow_exception(failure_);
            out_.write(answer_line(line));
        });
    }
    /// Writes a part of an answer, without a control call. An error is thrown by the next say().
    void stream(const OrderedJson& line) {
        if (!rank_group_.first() || failure_) return;
        try {
            out_.write(answer_line(line));
        } catch (const Error&) {
            failure_ = std::current_exception();
        }
    }

    /// Rooms grow by powers of two, so that a longer request seldom loads the engine again. With -c there is one room.
    void make_room(int64_t context, int64_t texts) {
        const int64_t longest = engine_.longest_context();
        const auto rounded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(context, kRoom))));
        const int64_t room = options_.ctx_size > 0 ? longest : std::min(longest, rounded);
        if (room > room_) scorer_.forget();
        room_ = std::max(room_, room);
        runs_->make_room({.context = room, .prompt = room, .texts = texts});
    }

    const Options& options_;
    const RankGroup& rank_group_;
    Engine engine_;
    RunLog log_;
    ChatRenderer chat_;
    PairScorer scorer_;
    std::optional<BatchRuns> runs_;
    LineReader in_{STDIN_FILENO, "stdin"};
    TextOut out_{STDOUT_FILENO};
    int64_t index_ = 0, room_ = 0;
    int ended_ = 0;               // rank 0: the status with which the run ends
    std::exception_ptr failure_;  // rank 0: of stream()
};

}  // namespace

void run_pipe(const Start& start, const RankGroup& rank_group) {
    rank_group.phase([&] { require_side_by_side(start.call.options); });
    int status = 0;
    {
        Pipe pipe(start, rank_group);
        status = pipe.serve();
    }
    write_trace(start.call.options, rank_group);
    if (status != 0) throw Stopped{exit_status(status)};
}

}  // namespace trireme
