#include <algorithm>
#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/session.h"
#include "launch/commands/chat_front.h"
#include "launch/commands/commands.h"
#include "launch/report/report.h"
#include "launch/report/trace_file.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/decode_run.h"
#include "launch/run/engine.h"
#include "launch/run/eviction.h"
#include "launch/run/outcome.h"
#include "launch/run/progress.h"
#include "launch/run/prompt.h"
#include "launch/run/signals.h"
#include "launch/run/snapshot/resume.h"
#include "launch/run/snapshot/snapshots.h"
#include "launch/run/spec_costs.h"
#include "model/tokenizer/utf8.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr int64_t kRoom = 8192, kEvictingRoom = 131072;  // tokens of questions and answers, without -c
constexpr const char* kHelp =
    "/save FILE  write the conversation      /stats  tokens, speed, acceptance\n"
    "/load FILE  continue a written one      /reset  begin again (the document is read again)\n"
    "/help       this list                   /exit   or Ctrl-D: end\n"
    "Ctrl-C stops an answer. A line that ends with \\ continues on the next one.\n";

/// What rank 0 has read from its console: all ranks do it.
struct Step {
    enum class What { kAsk, kSave, kLoad, kReset, kEnd } what = What::kEnd;
    std::vector<int32_t> ids;  // of a question
    std::string path;          // of a snapshot
};

Step shared(const RankGroup& rank_group, const Step& mine) {
    std::string bytes;
    if (rank_group.first()) bytes = nlohmann::json{static_cast<int>(mine.what), mine.ids, mine.path}.dump();
    rank_group.comm().broadcast(bytes);
    const nlohmann::json all = nlohmann::json::parse(bytes);
    return {static_cast<Step::What>(all.at(0).get<int>()), all.at(1), all.at(2)};
}

class Chat {
  public:
    Chat(const Start& start, const RankGroup& rank_group)
        : start_(start), options_(start.call.options), rank_group_(rank_group), engine_(start, rank_group) {
        const Options& o = options_;
        rank_group.first_only_waiting([&](const StillWaiting& waiting) {
            costs_ = given_costs(o);
            front_.emplace(o, *engine_.checkpoint().tokenizer);
            if (o.prompt_from == PromptFrom::kFile) document_ = read_document(o, waiting);
            before_ = front_->begin(document_);
            require(std::ssize(before_) < engine_.longest_context(), Exit::kConfig,
                    "{} has {} tokens and the context {}: shorten it or raise -c", o.prompt, before_.size(),
                    engine_.longest_context());
        });
        share(costs_, rank_group.comm());
        before_ = shared(rank_group, {Step::What::kAsk, before_, {}}).ids;
        const int64_t longest = engine_.longest_context();
        const int64_t more = engine_.eviction().evicts() ? kEvictingRoom : kRoom;
        const int64_t room = o.ctx_size > 0 ? longest : std::min(longest, std::ssize(before_) + more);
        engine_.load(start, rank_group, room, room);
        warn_of_unused_eviction(o, engine_.bounding(), room);
        rules_ = {.stop = o.stop};
        if (!o.ignore_eos) rules_.eos = engine_.checkpoint().eos;
        run_.add({.status = [&] { return rank_group_.first() && front_->reader_gone() ? kReaderGone : 0; }});
        remember_signals();
        warn_of_unused({o});
    }

    /// The last agreed status.
    int status() const { return run_.status(); }
    /// Returns the status with which the program ends.
    int converse() {
        if (rank_group_.first() && front_->terminal()) {
            front_->say(fmt::format("{}, context {}; /help lists commands", options_.model, engine_.model().context()));
        }
        begin();
        for (;;) {
            Step mine;
            rank_group_.first_only_waiting([&](const StillWaiting& waiting) { mine = next(waiting); });
            const Step step = shared(rank_group_, mine);
            if (step.what == Step::What::kEnd) return ended_;
            if (step.what == Step::What::kAsk) {
                if (const int status = answer(step.ids); status != 0) return status;
            } else if (step.what == Step::What::kReset) {
                begin();
            } else {
                file(step);
            }
        }
    }

  private:
    /// Begins an empty conversation.
    void begin_empty() {
        engine_.model().truncate(0, 0);
        chain_.reset();
        rank_group_.phase(
            [&] { chain_.emplace(options_, engine_.model(), engine_.proposing(), engine_.device(), costs_); });
        session_.emplace(chain_->decoder(), engine_.checkpoint().tokenizer.get());
        session_->on_read([&] {
            if (!chain_->wants_costs()) return;
            chain_->warm_up(rank_group_, session_->text().back());
            costs_ = chain_->costs();
        });
        asked_ = false;
    }

    /// Begins a conversation, and reads the document.
    void begin() {
        begin_empty();
        if (before_.empty()) return;
        ProgressMeter progress("document", "tokens", stderr_progress(rank_group_.first() && !options_.no_progress));
        session_->read_ahead(before_, [&](int64_t done, int64_t total) {
            progress(done, total);
            run_.prefill();
        });
    }

    /// Reads lines until one of them is a step for all ranks. Rank 0 alone.
    Step next(const StillWaiting& waiting) {
        for (;;) {
            const Console::Line line = front_->read(waiting);
            if (line.end == Console::End::kInput) {
                if (front_->terminal()) front_->say("");
                return {};
            }
            if (line.end == Console::End::kSignal) {
                if (remembered_signal() != SIGINT) {
                    ended_ = 128 + remembered_signal();
                    return {};
                }
                forget_interrupt();
                front_->say("");
                continue;
            }
            const size_t first = line.text.find_first_not_of(" \t\n");
            if (first == std::string::npos) continue;
            if (line.text[first] != '/') {
                if (std::optional<Step> step = question(line.text)) return *std::move(step);
                continue;
            }
            const size_t space = line.text.find(' ', first);
            const std::string word = line.text.substr(first, space - first);
            const std::string path = space == std::string::npos ? "" : line.text.substr(space + 1);
            if (word == "/exit" || word == "/quit") return {};
            if (word == "/reset") {
                try {
                    front_->begin(document_);
                } catch (const Error& e) {  // it worked before
                    front_->say(e.what());
                    continue;
                }
                return {Step::What::kReset, {}, {}};
            }
            if (word == "/stats") {
                stats();
            } else if (word == "/help") {
                front_->write(kHelp);
            } else if (word != "/save" && word != "/load") {
                front_->say(fmt::format("{}: no such command; /help lists them", word));
            } else if (path.empty() || !is_utf8(path)) {
                front_->say(fmt::format("{}: give a file", word));
            } else if (word == "/save" && !asked_) {
                front_->say("/save: there is no answer yet");
            } else {
                return {word == "/save" ? Step::What::kSave : Step::What::kLoad, {}, path};
            }
        }
    }

    /// The step of a question. Nothing if it has an error, which is shown; the conversation is then as before.
    std::optional<Step> question(const std::string& text) {
        const int64_t context = engine_.model().context();
        try {
            Step step = {Step::What::kAsk, front_->ask(text), {}};
            const int64_t used = std::ssize(session_->text()) + std::ssize(step.ids);
            if (used < context) return step;
            front_->say(fmt::format(
                "{} tokens do not fit the context of {}: /save and /reset, or start with a larger -c", used, context));
        } catch (const Error& e) {
            front_->say(e.what());
        }
        front_->undo();
        return {};
    }

    /// Returns 0, or the status with which the program ends.
    int answer(const std::vector<int32_t>& ids) {
        const int64_t most = options_.n_predict < 0 ? engine_.model().context() : options_.n_predict;
        const std::optional<Turn> turn = session_->answer(
            ids, most, rules_,
            [&](int64_t, int32_t, std::string_view text) {
                if (rank_group_.first()) front_->write(text);
            },
            [&](std::span<const int32_t> round) {
                // A question is read to its end: only then does Ctrl-C stop its answer.
                return run_.round(round) && (!round.empty() || run_.status() != 128 + SIGINT);
            });
        asked_ = true;
        if (run_.status() == 128 + SIGTERM || run_.status() == kReaderGone || !turn) return run_.status();
        last_ = *turn;
        if (run_.status() != 0) {
            forget_interrupt();
            session_->close_answer();
        }
        if (rank_group_.first()) {
            front_->end_answer(run_.status() != 0                          ? "(stopped)"
                               : turn->answer.stop == StopReason::kContext ? "(the context is full)"
                               : turn->answer.stop == StopReason::kLimit   ? "(stopped by -n)"
                                                                           : "");
        }
        return 0;
    }

    void stats() {
        const Level& model = engine_.model();
        front_->say(fmt::format("{} of {} tokens, {} in the KV cache, {:.1f} MB", session_->text().size(),
                                model.context(), model.cache().cached(0),
                                static_cast<double>(model.cache().bytes_of(model.length())) * 1e-6));
        if (last_) {
            const auto tokens = static_cast<double>(last_->answer.ids.size());
            front_->say(fmt::format("last answer: read {} tokens in {:.0f} ms, then {} tokens, {:.1f} tok/s",
                                    last_->prompt_tokens, last_->prefill_ms, tokens,
                                    last_->decode_ms > 0 ? tokens / last_->decode_ms * 1e3 : 0));
        }
        std::vector<ChainLevel> levels;
        add_levels(levels, *chain_);
        for (const std::string& line : acceptance_lines(levels)) front_->say(line);
    }

    /// Writes or loads a conversation. An error is shown, and the conversation continues; one that was not loaded
    /// begins again.
    void file(const Step& step) {
        const bool load = step.what == Step::What::kLoad;
        bool changed = false;
        try {
            Start own = start_;
            (load ? own.call.options.load_kv : own.call.options.save_kv) = step.path;
            if (load) {
                const std::optional<ResumedRun> earlier = resume(own, rank_group_, engine_.settings(), "session");
                const int64_t tokens = std::ssize(earlier->snapshot.text().ids()), context = engine_.model().context();
                require(tokens < context, Exit::kConfig, "{}: has {} tokens and the context {}: start with a larger -c",
                        step.path, tokens, context);
                changed = true;
                begin_empty();
                earlier->load(engine_, *session_, *chain_, rank_group_);
                session_->close_answer();
                at_front([&] { front_->resume(); });
                asked_ = true;
            } else {
                Snapshots(own.call.options, rank_group_, engine_,
                          {.known = known_of(*session_, *chain_, engine_.model()),
                           .text = [&] { return trireme::text_of(*session_); },
                           .costs = [&] { return chain_->costs(); }})
                    .write();
            }
        } catch (const Error& e) {
            if (rank_group_.first()) front_->say(e.what());
            if (!changed) return;
            at_front([&] { front_->begin(document_); });
            begin();
            return;
        }
        if (rank_group_.first()) {
            front_->say(fmt::format("{} {}: {} tokens", load ? "loaded" : "saved", step.path, session_->text().size()));
        }
    }

    /// Work of rank 0 alone, which may fail.
    void at_front(const std::function<void()>& work) const {
        rank_group_.first_only_waiting([&](const StillWaiting& waiting) {
            waiting();
            work();
        });
    }

    const Start& start_;
    const Options& options_;
    const RankGroup& rank_group_;
    Engine engine_;
    SpecCosts costs_;
    std::optional<ChatFront> front_;  // rank 0
    std::string document_;            // rank 0
    std::vector<int32_t> before_;     // ids of the document
    StopRules rules_;
    std::optional<Chain> chain_;
    std::optional<Session> session_;
    std::optional<Turn> last_;
    bool asked_ = false;  // the conversation has a question
    int ended_ = 0;
    DecodeRun run_{rank_group_, [this] { return chain_->digest(); }};
};

}  // namespace

void run_chat(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.phase([&] {
        require_for_turns(o, "chat");
        require(o.prompt_from != PromptFrom::kFile || o.prompt != "-", Exit::kUsage,
                "-f -: stdin is the conversation; give a file");
    });
    Chat chat(start, rank_group);
    int status = 0;
    try {
        status = chat.converse();
    } catch (const Interrupted&) {  // while the document was read
        status = chat.status();
    }
    write_trace(o, rank_group);
    if (status != 0) throw Stopped{exit_status(status)};
}

}  // namespace trireme
