#include <algorithm>
#include <bit>
#include <exception>
#include <map>
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
#include "launch/run/eviction.h"
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

constexpr int64_t kFirstContext = 2048;  // tokens that there is KV memory for before a longer request, without -c

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
        reserve(kFirstContext, 1, 1);
        warn_of_unused_eviction(options_, engine_.bounding(), engine_.longest_context());
        warn_of_unused({options_});
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

    /// The last agreed status.
    int status() { return runs_->rounds().status(); }

  private:
    /// The requests that have arrived; none at the end of stdin, after a signal, or when no one reads the answers. Rank
    /// 0 alone.
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
            for (size_t i = 0; i < run.size();) {
                if (runs_->rounds().round({})) return runs_->rounds().status();
                if (run[i].kind == Kind::kPair) {
                    i += score_pairs(run.subspan(i));
                    continue;
                }
                if (run[i].kind == Kind::kRolling) {
                    score_text(run[i]);
                } else {
                    rank_group_.first_only([&] { out_.write(run[i].answer); });
                }
                ++i;
            }
        }
        return 0;
    }

    /// Decodes the continuations of a group together, but for those that have an error.
    int decode(std::span<const PipeRequest> group) {
        std::vector<BatchRequest> requests;
        int64_t context = 0, prompt = 0;
        for (const PipeRequest& r : group) {
            const Options o = r.continued.options(options_);
            try {
                eviction_shape(o, engine_.checkpoint().config(), r.continued.tokens(), /*returns=*/false);
            } catch (const Error& e) {
                refused_[r.index] = e.what();
                continue;
            }
            const int64_t more = o.n_predict < 0 ? engine_.longest_context() : o.n_predict;
            context = std::max(context, std::min(r.continued.tokens() + more, engine_.longest_context()));
            prompt = std::max(prompt, r.continued.tokens());
            requests.push_back(r.continued);
        }
        int status = 0;
        if (!requests.empty()) {
            scorer_.forget();
            try {
                reserve(context, prompt, std::ssize(requests));
                runs_->prepare(std::move(requests));
            } catch (const Error& e) {  // on all ranks alike
                recover(e);
                for (const PipeRequest& r : group) refused_.try_emplace(r.index, e.what());
                say_refused(INT64_MAX);
                return 0;
            }
            status = runs_->run([&](const BatchRequest& request, const BatchDone& d) { answer(request, d); },
                                [&](const BatchRequest& request, std::string_view text) {
                                    if (!text.empty()) stream({{"index", request.index}, {"delta", text}});
                                });
        }
        if (status == 0) say_refused(INT64_MAX);
        return status;
    }

    /// Answers the requests before `index` that have an error.
    void say_refused(int64_t index) {
        while (!refused_.empty() && refused_.begin()->first < index) {
            say({{"index", refused_.begin()->first}, {"error", refused_.begin()->second}});
            refused_.erase(refused_.begin());
        }
    }

    void answer(const BatchRequest& request, const BatchDone& d) {
        say_refused(request.index);
        say({{"index", request.index},
             {"text", d.made.text},
             {"finish_reason", finish_reason(d.made.stop)},
             {"prompt_tokens", request.tokens()},
             {"completion_tokens", d.made.ids.size()},
             {"seconds", d.seconds}});
    }

    /// Scores the first pairs of a group together. Returns the number of pairs that are answered.
    size_t score_pairs(std::span<const PipeRequest> group) {
        std::vector<const Pair*> pairs;
        for (const PipeRequest& r : group) {
            if (r.kind != Kind::kPair || pairs.size() == kMaxRows) break;
            pairs.push_back(&r.pair);
        }
        pairs.resize(scorer_.together(pairs));
        const bool scored = answer_or_refuse(group.front(), [&] {
            int64_t longest = 1;
            for (const Pair* pair : pairs) longest = std::max(longest, std::ssize(pair->ids));
            make_ready(longest, pairs.front()->begin);
            const std::vector<Score> scores = scorer_.score(pairs);
            for (size_t i = 0; i < pairs.size(); ++i) say(pair_result(group[i].index, *pairs[i], scores[i]));
        });
        return scored ? pairs.size() : 1;
    }

    void score_text(const PipeRequest& r) {
        int64_t longest = 1;
        for (const ScoreWindow& w : r.windows) longest = std::max(longest, w.end - w.begin);
        answer_or_refuse(r, [&] {
            make_ready(longest, longest);
            scorer_.forget();
            // As in score: without chunks, a policy evicts after every token.
            const bool by_token = engine_.eviction().evicts() && options_.eviction.chunk == 0;
            const Score made = trireme::score(engine_.model(), r.pair.ids, r.windows, by_token ? 1 : INT64_MAX, {},
                                              [&](int64_t, int64_t) { runs_->rounds().prefill(); });
            say({{"index", r.index}, {"logprob", made.sum}, {"tokens", made.logprobs.size()}});
        });
    }

    /// Prepares the model for a text of `tokens` tokens, of which `prompt` are read at once.
    void make_ready(int64_t tokens, int64_t prompt) {
        const int64_t longest = engine_.longest_context();
        reserve(std::min(tokens, longest), std::min(prompt, longest), 1);
        runs_->adapt(std::min(prompt, longest));
        if (loads_ != runs_->loads()) scorer_.forget();
        loads_ = runs_->loads();
    }

    /// An error of `work` is the request's answer. Returns whether there was none.
    template <class Work>
    bool answer_or_refuse(const PipeRequest& r, const Work& work) {
        try {
            work();
            return true;
        } catch (const Error& e) {
            recover(e);
            say({{"index", r.index}, {"error", e.what()}});
            return false;
        }
    }

    /// Continues after an error that all ranks have: of a request, or of a load that found too little memory. Throws
    /// others, which end the run.
    void recover(const Error& e) {
        if (e.code() == Exit::kOs) {
            runs_->release();
        } else if (e.code() != Exit::kData && e.code() != Exit::kConfig) {
            throw;
        }
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

    /// Reserves KV memory. It grows by powers of two, so that a longer request seldom reloads the engine; with -c it is
    /// that of -c. Only policies and chains depend on the prompt's length.
    void reserve(int64_t context, int64_t prompt, int64_t texts) {
        const int64_t longest = engine_.longest_context();
        const auto rounded = [&](int64_t tokens) {
            return std::min(
                longest, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(tokens, kFirstContext)))));
        };
        const int64_t most = options_.ctx_size > 0 ? longest : rounded(context);
        runs_->reserve({.context = most, .prompt_tokens = std::min(most, rounded(prompt)), .texts = texts});
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
    int64_t index_ = 0;
    int64_t loads_ = 0;                       // of the engine, when the last score was made
    int ended_ = 0;                           // rank 0: the status with which the run ends
    std::map<int64_t, std::string> refused_;  // why, by index: requests of the group that is decoded
    std::exception_ptr failure_;              // rank 0: of stream()
};

}  // namespace

void run_pipe(const Start& start, const RankGroup& rank_group) {
    rank_group.phase([&] { require_side_by_side(start.call.options); });
    int status = 0;
    {
        Pipe pipe(start, rank_group);
        try {
            status = pipe.serve();
        } catch (const Interrupted&) {  // while a prompt or a text was read
            status = pipe.status();
        }
    }
    write_trace(start.call.options, rank_group);
    if (status != 0) throw Stopped{exit_status(status)};
}

}  // namespace trireme
