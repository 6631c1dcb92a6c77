// Sequences that end before their limit: special tokens, an interrupt. Incomplete characters at the end are not shown.

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/decode/kjv_prompt.h"

namespace trireme::test {
namespace {

/// The model's tokenizer, except for one id, which has another text or is a control token named "<stop>".
class Altered final : public Tokenizer {
  public:
    Altered(const Tokenizer& base, int32_t id, std::string text, bool special)
        : base_(base), id_(id), text_(std::move(text)), special_(special) {}
    std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
        return special_ && text == text_ ? std::vector{id_} : base_.encode(text, add_special);
    }
    std::string piece(int32_t id) const override { return id == id_ ? text_ : base_.piece(id); }
    int64_t vocab() const override { return base_.vocab(); }
    bool is_special(int32_t id) const override { return id == id_ ? special_ : base_.is_special(id); }

  private:
    const Tokenizer& base_;
    int32_t id_;
    std::string text_;
    bool special_;
};

class Stopping : public KjvPrompt {
  protected:
    Stopping() {
        request.max_new = 12;
        plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    }

    std::vector<int32_t> plain;

    static int64_t first_of(const std::vector<int32_t>& ids, int32_t id) {
        return std::find(ids.begin(), ids.end(), id) - ids.begin();
    }
};

TEST_F(Stopping, AStopStringThatIsASpecialTokenStopsAtItsId) {
    const Altered altered(*tokenizer, plain.at(6), "<stop>", /*special=*/true);
    request.stop = {"<stop>"};
    const Continuation c = generate(*engine, &altered, request, stats).at(0);

    EXPECT_EQ(c.stop, StopReason::kStopString);
    EXPECT_EQ(static_cast<int64_t>(c.ids.size()), first_of(plain, plain.at(6)) + 1);
    EXPECT_EQ(c.text.find("<stop>"), std::string::npos);
}

TEST_F(Stopping, HalfACharacterIsNotShown) {
    request.max_new = first_of(plain, plain.at(11)) + 1;
    const Altered altered(*tokenizer, plain.at(11), "\xF0\x9F", /*special=*/false);
    std::string streamed;
    const Continuation c = generate(*engine, &altered, request, stats, [&](int64_t, int32_t, std::string_view text) {
                               streamed += text;
                           }).at(0);

    EXPECT_EQ(static_cast<int64_t>(c.ids.size()), request.max_new);
    EXPECT_EQ(c.text.find('\xF0'), std::string::npos);
    EXPECT_EQ(streamed, c.text);
}

TEST_F(Stopping, AnInterruptEndsTheRunAfterTheCurrentToken) {
    request.num_samples = 3;
    int asked = 0;
    const auto out = generate(*engine, tokenizer.get(), request, stats, {}, {},
                              [&](std::span<const int32_t>) { return ++asked == 15; });

    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].ids, plain);
    EXPECT_EQ(out[0].stop, StopReason::kLimit);
    EXPECT_EQ(out[1].ids, std::vector<int32_t>(plain.begin(), plain.begin() + 3));
    EXPECT_EQ(out[1].stop, StopReason::kInterrupted);
    EXPECT_EQ(stats.new_tokens, 15);
}

TEST_F(Stopping, AnInterruptAtTheLastTokenEndsTheRunAndLeavesTheReason) {
    request.num_samples = 3;
    const auto interrupted_after = [&](size_t tokens) {
        size_t asked = 0;
        return generate(*engine, tokenizer.get(), request, stats, {}, {},
                        [&](std::span<const int32_t>) { return ++asked == tokens; });
    };
    const auto limited = interrupted_after(plain.size());
    ASSERT_EQ(limited.size(), 1u);
    EXPECT_EQ(limited[0].ids, plain);
    EXPECT_EQ(limited[0].stop, StopReason::kLimit);

    request.eos = {plain.at(7)};
    const auto ended = interrupted_after(static_cast<size_t>(first_of(plain, plain.at(7))) + 1);
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].stop, StopReason::kEos);
}

/// Proposes three known tokens per round, and records its calls.
class Threes final : public Decoder {
  public:
    explicit Threes(Level& model) : model_(model) {}
    const char* name() const override { return "threes"; }
    Level& target() override { return model_; }
    int sequence() const override { return 0; }
    const SamplingParams& sampling() const override { return sampling_; }
    void read_on(std::span<const int32_t>, const Progress&) override {}
    void prefill(std::span<const int32_t> prompt, const Progress&) override { model_.prefill(0, prompt); }
    void adopt(std::span<const int32_t>) override {}
    void begin(uint32_t) override { next_ = 300; }
    std::span<const Proposed> propose(int64_t) override { return {}; }
    int64_t draft(int64_t limit) override {
        limits.push_back(limit);
        return next_ == 300 ? 0 : 1;
    }
    void append_rows(RoundRows& all) override {
        all.rows.push_back({.token = 300, .position = static_cast<int32_t>(model_.length())});
        all.uniforms.push_back(0);
        all.draws = true;
    }
    std::span<const Proposed> settle(const RoundResult&) override {
        for (int32_t i = 0; i < 3; ++i) round_[static_cast<size_t>(i)] = {.token = next_++, .parent = i - 1};
        return round_;
    }
    void resolve(std::span<const int32_t> path, int32_t next) override {
        EXPECT_EQ(next, -1);
        committed.emplace_back(path.begin(), path.end());
        model_.cache().drop();
    }

    void rewind(int64_t, int32_t) override { ADD_FAILURE() << "no proposer follows it"; }

    std::vector<int64_t> limits;
    std::vector<std::vector<int32_t>> committed;

  private:
    Level& model_;
    SamplingParams sampling_;
    int32_t next_ = 0;
    std::array<Proposed, 3> round_;
};

TEST_F(Stopping, EndsInsideABlock) {
    const auto run = [&](const GenerateRequest& r, const Interrupt& interrupt = {}) {
        engine->truncate(0, 0);
        Threes threes(*engine);
        const Continuation c = trireme::generate(threes, nullptr, r, stats, {}, {}, interrupt).at(0);
        EXPECT_EQ(stats.new_tokens, static_cast<int64_t>(c.ids.size()));
        EXPECT_EQ(stats.rounds, static_cast<int64_t>(threes.committed.size()));
        return std::pair{c, threes};
    };
    using Paths = std::vector<std::vector<int32_t>>;
    const GenerateRequest five{.prompt = request.prompt, .max_new = 5};

    const auto [limited, by_limit] = run(five);
    EXPECT_EQ(limited.ids, (std::vector<int32_t>{300, 301, 302, 303, 304}));
    EXPECT_EQ(limited.stop, StopReason::kLimit);
    EXPECT_EQ(by_limit.limits, (std::vector<int64_t>{5, 2}));
    EXPECT_EQ(by_limit.committed, (Paths{{0, 1, 2}, {0, 1}}));

    GenerateRequest ends = five;
    ends.stops.eos = {303};
    const auto [ended, by_eos] = run(ends);
    EXPECT_EQ(ended.ids, (std::vector<int32_t>{300, 301, 302, 303}));
    EXPECT_EQ(ended.stop, StopReason::kEos);
    EXPECT_EQ(by_eos.committed, (Paths{{0, 1, 2}, {0}}));

    std::vector<std::vector<int32_t>> asked;
    const auto [interrupted, by_signal] = run(five, [&](std::span<const int32_t> round) {
        asked.emplace_back(round.begin(), round.end());
        return true;
    });
    EXPECT_EQ(interrupted.ids, (std::vector<int32_t>{300, 301, 302}));
    EXPECT_EQ(interrupted.stop, StopReason::kInterrupted);
    EXPECT_EQ(asked, (Paths{{300, 301, 302}}));  // once a round
}

}  // namespace
}  // namespace trireme::test
