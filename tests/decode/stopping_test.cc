// What ends a text besides the limit: special tokens, half characters, an interrupt.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/decode/kjv_prompt.h"

namespace trireme::test {
namespace {

/// The model's tokenizer but for one id, which has another text or is a control token named "<stop>".
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

TEST_F(Stopping, AnInterruptEndsTheRunAfterTheTokenAtHand) {
    request.num_samples = 3;
    int asked = 0;
    const auto out = generate(*engine, tokenizer.get(), request, stats, {}, {}, [&](int32_t) { return ++asked == 15; });

    ASSERT_EQ(out.size(), 2u);
    EXPECT_EQ(out[0].ids, plain);
    EXPECT_EQ(out[0].stop, StopReason::kLimit);
    EXPECT_EQ(out[1].ids, std::vector<int32_t>(plain.begin(), plain.begin() + 3));
    EXPECT_EQ(out[1].stop, StopReason::kInterrupted);
    EXPECT_EQ(stats.new_tokens, 15);
}

}  // namespace
}  // namespace trireme::test
