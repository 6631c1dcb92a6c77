#include "decode/session.h"

#include <array>

#include "decode/prompt_ids.h"
#include "decode/sampling.h"
#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Thrown out of a prefill.
struct GivenUp {};

double ms_since(uint64_t begin_ns) {
    return static_cast<double>(trace::now() - begin_ns) * 1e-6;
}

}  // namespace

Session::Session(Level& model, const Tokenizer* tokenizer, const SamplingParams& sampling, uint64_t seed)
    : model_(model), tokenizer_(tokenizer), sampling_(sampling), seed_(seed) {
    validate(sampling);
}

std::optional<Turn> Session::answer(std::span<const int32_t> ids, int64_t most, const StopRules& rules,
                                    const OnToken& on_token, const Interrupt& interrupt) {
    require(!ids.empty(), Exit::kConfig, "turn {} is empty: give at least one token", turn_ + 1);
    const std::vector<int32_t> given(ids.begin(), ids.end());
    check_ids(given, model_.config().vocab);
    std::vector<int32_t> text = unread_;
    text.insert(text.end(), given.begin(), given.end());
    const auto tokens = static_cast<int64_t>(text.size());
    const int64_t room = model_.context() - model_.length() - tokens;
    require(room >= 1, Exit::kConfig,
            "turn {}: {} tokens behind {} do not fit the context of {}; raise it (-c), or let "
            "positions roll",
            turn_ + 1, tokens, model_.length(), model_.context());

    Turn turn = {.prompt_tokens = tokens, .reserved = model_.reserve(0, tokens), .answer = {}};
    uint64_t begin = trace::now();
    try {
        model_.prefill(0, text, [&](int64_t, int64_t) {
            if (interrupt && interrupt({})) throw GivenUp();
        });
    } catch (const GivenUp&) {
        return std::nullopt;
    }
    turn.prefill_ms = ms_since(begin);
    begin = trace::now();
    ContinuationBuilder answer(tokenizer_, rules, turn_, std::min(most, room),
                               most <= room ? StopReason::kLimit : StopReason::kContext, on_token);
    const std::array<int32_t, 1> kept = {0};
    unread_.clear();
    for (uint32_t round = 0; !answer.done(); ++round) {
        if (!unread_.empty()) {
            const std::array<Row, 1> row = {{{.token = unread_[0], .position = static_cast<int32_t>(model_.length())}}};
            model_.forward(row);
            model_.keep(0, kept);
        }
        const std::array<double, 1> u = {uniform(seed_, {.sample = turn_, .round = round})};
        unread_.assign(1, model_.sample(sampling_, u)[0]);
        answer.take(unread_[0]);
        if (interrupt && interrupt(unread_) && !answer.done()) answer.stop(StopReason::kInterrupted);
    }
    turn.answer = answer.finish();
    if (turn.answer.stop == StopReason::kEos) unread_.clear();
    turn.decode_ms = ms_since(begin);
    ++turn_;
    return turn;
}

}  // namespace trireme
