#include "model/tokenizer/stream_decoder.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

/// Ids are indices into a list of pieces.
class Pieces final : public Tokenizer {
  public:
    explicit Pieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
    std::vector<int32_t> encode(std::string_view, bool) const override { return {}; }
    std::string piece(int32_t id) const override { return pieces_.at(static_cast<size_t>(id)); }
    int64_t vocab() const override { return static_cast<int64_t>(pieces_.size()); }

  private:
    std::vector<std::string> pieces_;
};

/// Returns the output of each push, then that of the flush.
std::vector<std::string> stream(const std::vector<std::string>& pieces) {
    const Pieces tokenizer(pieces);
    StreamDecoder decoder(tokenizer);
    std::vector<std::string> out;
    for (size_t i = 0; i < pieces.size(); ++i) out.push_back(decoder.push(static_cast<int32_t>(i)));
    out.push_back(decoder.flush());
    return out;
}

using Parts = std::vector<std::string>;

TEST(StreamDecoder, HoldsBackHalfACharacter) {
    EXPECT_EQ(stream({"a\xE4", "\xBD",
                      "\xA0"
                      "b"}),
              (Parts{"a", "",
                     "\u4F60"
                     "b",
                     ""}));
    EXPECT_EQ(stream({"\xF0", "\x9F", "\x98", "\x80"}), (Parts{"", "", "", "\U0001F600", ""}));
}

TEST(StreamDecoder, EmitsInvalidBytesOnceTheyAreKnown) {
    EXPECT_EQ(stream({"\xFF"}), (Parts{"\xFF", ""}));
    EXPECT_EQ(stream({"\xE4", "a"}), (Parts{"",
                                            "\xE4"
                                            "a",
                                            ""}));
    EXPECT_EQ(stream({"\xE4\xBD", "\xC3"}), (Parts{"", "\xE4\xBD", "\xC3"}));
    EXPECT_EQ(stream({"\xE0", "\x80"}), (Parts{"", "\xE0\x80", ""}));
    EXPECT_EQ(stream({"\x80\x80", "\xF4\x90"}), (Parts{"\x80\x80", "\xF4\x90", ""}));
}

TEST(StreamDecoder, FlushGivesTheRestOnce) {
    const Pieces tokenizer({"a\xF0\x9F\x98"});
    StreamDecoder decoder(tokenizer);
    EXPECT_EQ(decoder.push(0), "a");
    EXPECT_EQ(decoder.flush(), "\xF0\x9F\x98");
    EXPECT_EQ(decoder.flush(), "");
}

TEST(StreamDecoder, KeepsTheFirstSpace) {
    EXPECT_EQ(stream({" a", " b"}), (Parts{" a", " b", ""}));
}

}  // namespace
}  // namespace trireme::test
