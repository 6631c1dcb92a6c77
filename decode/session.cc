#include "decode/session.h"

#include <algorithm>
#include <array>

#include "decode/prompt_ids.h"
#include "decode/sampling.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Thrown to end a prefill when the caller interrupts it.
struct GivenUp {};

}  // namespace

Session::Session(Level& model, const Tokenizer* tokenizer, const SamplingParams& sampling, uint64_t seed)
    : model_(model), tokenizer_(tokenizer), sampling_(sampling), seed_(seed) {
    validate(sampling);
}

/// The tokens that the model has not read: the last drawn token, if it is part of the sequence.
std::span<const int32_t> Session::unread() const {
    return std::span(text_).subspan(static_cast<size_t>(model_.length()));
}

bool Session::read(std::span<const int32_t> ids, Turn& turn, const Interrupt& interrupt) {
    const std::vector<int32_t> given(ids.begin(), ids.end());
    check_ids(given, model_.config().vocab);
    std::vector<int32_t> text(unread().begin(), unread().end());
    text.insert(text.end(), given.begin(), given.end());
    const auto tokens = static_cast<int64_t>(text.size());
    require(model_.context() - model_.length() - tokens >= 1, Exit::kConfig,
            "turn {}: {} tokens after {} do not fit the context of {}; raise it (-c), or let "
            "positions roll",
            turn_ + 1, tokens, model_.length(), model_.context());

    const bool reserved = model_.reserve(0, tokens);
    const uint64_t begin = trace::now();
    try {
        model_.prefill(0, text, [&](int64_t, int64_t) {
            if (interrupt && interrupt({})) throw GivenUp();
        });
    } catch (const GivenUp&) {
        return false;
    }
    model_.save_logits();
    turn.prefill_ms = trace::ms_since(begin);
    text_.insert(text_.end(), given.begin(), given.end());
    answer_begin_ = static_cast<int64_t>(text_.size());
    said_.push_back({.ids = given, .answer = {}, .prompt_tokens = tokens, .reserved = reserved});
    if (read_) read_();
    return true;
}

std::optional<Turn> Session::answer(std::span<const int32_t> ids, int64_t most, const StopRules& rules,
                                    const OnToken& on_token, const Interrupt& interrupt) {
    require(!ids.empty(), Exit::kConfig, "turn {} is empty: give at least one token", turn_ + 1);
    Turn turn;
    if (turn_ == said_.size() && !read(ids, turn, interrupt)) return std::nullopt;
    TurnRecord& said = said_[turn_];
    require(std::ranges::equal(said.ids, ids), Exit::kConfig,
            "turn {}: {} tokens, where the resumed conversation has {} others; give it the same turns, and "
            "more after them",
            turn_ + 1, ids.size(), said.ids.size());
    turn.prompt_tokens = said.prompt_tokens;
    turn.reserved = said.reserved;
    turn.resumed = static_cast<int64_t>(said.answer.size());

    const uint64_t begin = trace::now();
    const int64_t room = model_.context() - answer_begin_;
    const int64_t shown = turn.resumed + (said.done ? 1 : 0);  // the limit is at least this, whatever `most` is
    ContinuationBuilder answer(tokenizer_, rules, turn_, std::max(shown, std::min(most, room)),
                               most <= room ? StopReason::kLimit : StopReason::kContext, on_token);
    for (size_t i = 0; i < said.answer.size() && !answer.done(); ++i) answer.take(said.answer[i]);
    if (said.done) answer.stop(said.stop);
    const std::array<int32_t, 1> kept = {0};
    while (!answer.done()) {
        if (!unread().empty()) {
            const std::array<Row, 1> row = {
                {{.token = unread()[0], .position = static_cast<int32_t>(model_.length())}}};
            model_.forward(row);
            model_.keep(0, kept);
        }
        const auto round = static_cast<uint32_t>(said.answer.size());
        const std::array<double, 1> u = {uniform(seed_, {.sample = turn_, .round = round})};
        const std::array<int32_t, 1> drawn = {model_.sample(sampling_, u)[0]};
        said.answer.push_back(drawn[0]);
        if (std::ranges::find(rules.eos, drawn[0]) == rules.eos.end()) text_.push_back(drawn[0]);
        answer.take(drawn[0]);
        if (interrupt && interrupt(drawn) && !answer.done()) answer.stop(StopReason::kInterrupted);
    }
    turn.answer = answer.finish();
    turn.decode_ms = trace::ms_since(begin);
    said.stop = turn.answer.stop;
    said.done = said.stop != StopReason::kInterrupted;
    ++turn_;
    return turn;
}

void Session::adopt(std::vector<int32_t> text) {
    check_ids(text, model_.config().vocab);
    text_ = std::move(text);
    answer_begin_ = static_cast<int64_t>(text_.size());
}

void Session::state(Archive& ar) {
    ar.section("session");
    ar.values(text_);
    ar.value(answer_begin_);
    uint64_t turns = said_.size();
    ar.value(turns);
    for (uint64_t t = 0; t < turns; ++t) {
        if (ar.loads()) said_.emplace_back();  // one by one: a wrong count ends with the data, before it allocates much
        TurnRecord& said = said_[t];
        auto reserved = static_cast<uint8_t>(said.reserved), done = static_cast<uint8_t>(said.done);
        auto stop = static_cast<uint8_t>(said.stop);
        ar.values(said.ids);
        ar.values(said.answer);
        ar.value(said.prompt_tokens);
        ar.value(reserved);
        ar.value(done);
        ar.value(stop);
        require(stop <= static_cast<uint8_t>(StopReason::kInterrupted), Exit::kData, "a turn ended for reason {}",
                stop);
        said.reserved = reserved != 0;
        said.done = done != 0;
        said.stop = static_cast<StopReason>(stop);
    }
}

void Session::resume(bool logits) {
    check_ids(text_, model_.config().vocab);
    for (const TurnRecord& said : said_) check_ids(said.answer, model_.config().vocab);
    const auto tokens = static_cast<int64_t>(text_.size());
    const auto open = static_cast<size_t>(std::ranges::count(said_, false, &TurnRecord::done));
    const auto of_answer = said_.empty() ? 0 : static_cast<int64_t>(said_.back().answer.size());
    require(tokens >= model_.length() && tokens <= model_.length() + 1 && answer_begin_ <= tokens &&
                tokens <= answer_begin_ + of_answer && open <= 1 && (open == 0 || !said_.back().done),
            Exit::kData, "a conversation of {} tokens in {} turns does not go with a model that has read {}", tokens,
            said_.size(), model_.length());
    if (open == 0 || of_answer > 0) return;
    if (logits) return model_.restore_logits();
    model_.truncate(0, tokens - 1);
    model_.prefill(0, unread());
}

}  // namespace trireme
