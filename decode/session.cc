#include "decode/session.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "decode/loop.h"
#include "decode/prompt_ids.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Thrown to end a prefill when the caller interrupts it.
struct GivenUp {};

}  // namespace

Session::Session(Decoder& decoder, const Tokenizer* tokenizer)
    : decoder_(decoder), model_(decoder.target()), tokenizer_(tokenizer) {}

/// The tokens that the model has not read: the last drawn token, if it is part of the sequence.
std::span<const int32_t> Session::unread() const {
    return std::span(text_).subspan(index(model_.length()));
}

/// Reads ids after the text. Returns whether room was made for them first (Turn::reserved).
bool Session::append(const std::vector<int32_t>& ids, const Progress& progress) {
    check_ids(ids, model_.config().vocab);
    const auto tokens = static_cast<int64_t>(unread().size() + ids.size());
    require(model_.context() - model_.length() - tokens >= 1, Exit::kConfig,
            "turn {}: {} tokens after {} do not fit the context of {}; raise it (-c), or let "
            "positions roll",
            turn_ + 1, tokens, model_.length(), model_.context());
    const bool reserved = model_.reserve(0, tokens);
    text_.insert(text_.end(), ids.begin(), ids.end());
    decoder_.read_on(text_, progress);
    answer_begin_ = static_cast<int64_t>(text_.size());
    return reserved;
}

bool Session::read(std::span<const int32_t> ids, Turn& turn, const Interrupt& interrupt) {
    const std::vector<int32_t> given(ids.begin(), ids.end());
    const auto tokens = static_cast<int64_t>(unread().size() + given.size());
    const uint64_t begin = trace::now();
    bool reserved = false;
    try {
        reserved = append(given, [&](int64_t, int64_t) {
            if (interrupt && interrupt({})) throw GivenUp();
        });
    } catch (const GivenUp&) {
        return false;
    }
    turn.prefill_ms = trace::ms_since(begin);
    said_.push_back({.ids = given, .answer = {}, .prompt_tokens = tokens, .reserved = reserved});
    if (read_) read_();
    return true;
}

void Session::read_ahead(std::span<const int32_t> ids, const Progress& progress) {
    append({ids.begin(), ids.end()}, progress);
}

void Session::close_answer() {
    if (!said_.empty()) said_.back().done = true;
    turn_ = static_cast<uint32_t>(said_.size());
    stands_ = Stands::kBefore;
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
    auto answer =
        std::make_unique<ContinuationBuilder>(tokenizer_, rules, turn_, std::max(shown, std::min(most, room)),
                                              most <= room ? StopReason::kLimit : StopReason::kContext, on_token);
    for (size_t i = 0; i < said.answer.size() && !answer->done(); ++i) answer->take(said.answer[i]);
    if (said.done) answer->stop(said.stop);
    Loop loop(model_, 1, [&](int64_t, Continuation text) { turn.answer = std::move(text); });
    const bool draws = !answer->done();
    if (draws && stands_ == Stands::kBefore) decoder_.begin(turn_);
    loop.begin(decoder_, 0, std::move(answer));
    std::vector<int32_t> round;
    if (draws && stands_ != Stands::kInAnswer) loop.draw_first(decoder_, round);
    if (!said.done) stands_ = Stands::kBefore;
    while (!round.empty() || !loop.empty()) {
        for (const int32_t id : round) {
            said.answer.push_back(id);
            if (std::ranges::find(rules.eos, id) == rules.eos.end()) text_.push_back(id);
        }
        if (!round.empty() && interrupt && interrupt(round)) loop.stop();
        round.clear();
        loop.step(round);
    }
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

void Session::resume(Restored restored, Plain* plain) {
    check_ids(text_, model_.config().vocab);
    for (const TurnRecord& said : said_) check_ids(said.answer, model_.config().vocab);
    const auto tokens = static_cast<int64_t>(text_.size());
    const auto open = static_cast<size_t>(std::ranges::count(said_, false, &TurnRecord::done));
    const auto of_answer = said_.empty() ? 0 : static_cast<int64_t>(said_.back().answer.size());
    require(tokens >= model_.length() && answer_begin_ <= tokens && tokens <= answer_begin_ + of_answer && open <= 1 &&
                (open == 0 || !said_.back().done),
            Exit::kData, "a conversation of {} tokens in {} turns does not go with a model that has read {}", tokens,
            said_.size(), model_.length());
    if (open == 0) return;
    stands_ = of_answer > 0 ? Stands::kInAnswer : Stands::kBefore;
    const auto turn = static_cast<uint32_t>(said_.size() - 1);
    if (restored == Restored::kDecoder) return;
    if (restored == Restored::kLevel) {
        require(tokens <= model_.length() + 1, Exit::kData, "a conversation of {} tokens, {} of them read", tokens,
                model_.length());
        if (of_answer == 0) stands_ = Stands::kAtPrompt;
        return plain->resume(text_, turn, static_cast<uint32_t>(of_answer));
    }
    if (tokens == model_.length()) model_.truncate(0, tokens - 1);
    if (plain != nullptr && of_answer > 0) return plain->resume(text_, turn, static_cast<uint32_t>(of_answer));
    decoder_.read_on(text_, {});
    stands_ = Stands::kAtPrompt;
    // Other draws than those of the tokens that the turn has: no turn has this number.
    decoder_.begin(of_answer == 0 ? turn : uint32_t{1} << 31 | static_cast<uint32_t>(tokens));
}

}  // namespace trireme
