#include "launch/report/rouge.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

struct Golden {
    std::string text, reference;
    double scores[9];  // p, r, f of rouge-1, rouge-2, rouge-l
};

// From the Python package rouge 1.0.1 (pltrdy): rouge.Rouge().get_scores(text, reference).
const std::vector<Golden> kGoldens = {
    {"the cat sat on the mat",
     "the cat was on the mat",
     {0.8, 0.8, 0.7999999950000002, 0.6, 0.6, 0.5999999950000001, 0.8, 0.8, 0.7999999950000002}},
    {"The cat sat. on the mat.",
     "the cat sat on the mat.",
     {0.8333333333333334, 1.0, 0.9090909041322315, 0.8, 0.8, 0.7999999950000002, 0.8333333333333334, 1.0,
      0.9090909041322315}},
    {"A man has been charged with murder after a body was found in a house in Leeds.",
     "A 34-year-old man has been charged with the murder of a woman whose body was found at a house in Leeds.",
     {0.9333333333333333, 0.7, 0.7999999951020409, 0.5625, 0.45, 0.4999999950617285, 0.9333333333333333, 0.7,
      0.7999999951020409}},
    {"w1 w2 w6 w7 w8. w1 w3 w8 w9 w5",
     "w1 w2 w3 w4 w5",
     {0.5, 0.8, 0.6153846106508877, 0.1111111111111111, 0.25, 0.15384614958579892, 0.5, 0.8, 0.6153846106508877}},
    {"a b c d. e f g. a c e g",
     "a c b d. g f e. a b c d e f g",
     {1.0, 1.0, 0.999999995, 0.7, 0.5384615384615384, 0.6086956472589792, 1.0, 1.0, 0.999999995}},
    {" Prices rose by 3.5 % in May.  Analysts had expected 3.1 %. ",
     "Prices rose 3.5 % in May, more than analysts had expected.",
     {0.6153846153846154, 0.6666666666666666, 0.6399999950080001, 0.35714285714285715, 0.45454545454545453,
      0.399999995072, 0.6153846153846154, 0.6666666666666666, 0.6399999950080001}},
    {"to be or not to be that is the question to be",
     "not to be or to be. the question. is that",
     {1.0, 1.0, 0.999999995, 0.4444444444444444, 0.5, 0.4705882303114187, 0.75, 0.75, 0.749999995}},
    {"x", "y", {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}},
    {"one", "one", {1.0, 1.0, 0.999999995, 0.0, 0.0, 0.0, 1.0, 1.0, 0.999999995}},
    {" ",
     "a b. ",
     {1.0, 0.3333333333333333, 0.4999999962500001, 0.0, 0.0, 0.0, 1.0, 0.3333333333333333, 0.4999999962500001}},
    {"Die Straße\u00a0war\u3000naß … sehr naß. Größe zählt",
     "Die Straße war naß. Die Größe zählt … nicht",
     {0.875, 0.875, 0.874999995, 0.5, 0.5, 0.4999999950000001, 0.875, 0.875, 0.874999995}},
    {"no full stop here\nnor there\tbut tabs",
     "no full stop. here nor\u2003there. but tabs",
     {1.0, 1.0, 0.999999995, 1.0, 1.0, 0.999999995, 1.0, 1.0, 0.999999995}},
    {"b a b a c a b. c b a",
     "a b c a b a. b a c. c c a",
     {1.0, 1.0, 0.999999995, 0.8333333333333334, 0.8333333333333334, 0.8333333283333335, 1.0, 1.0, 0.999999995}},
    {"q w e r t y u i o p a s d f g h j k l",
     "p o i u y t r e w q l k j h g f d s a",
     {1.0, 1.0, 0.999999995, 0.0, 0.0, 0.0, 0.10526315789473684, 0.10526315789473684, 0.10526315289473707}},
};

TEST(Rouge, IsThatOfThePackage) {
    for (const Golden& g : kGoldens) {
        const Rouge got = rouge(g.text, g.reference);

        const RougeScore* scores[] = {&got.one, &got.two, &got.l};
        for (size_t i = 0; i < 3; ++i) {
            EXPECT_DOUBLE_EQ(scores[i]->p, g.scores[3 * i]) << g.text << " rouge " << i;
            EXPECT_DOUBLE_EQ(scores[i]->r, g.scores[3 * i + 1]) << g.text << " rouge " << i;
            EXPECT_DOUBLE_EQ(scores[i]->f, g.scores[3 * i + 2]) << g.text << " rouge " << i;
        }
        EXPECT_FALSE(got.empty);
    }
}

// The package fails for these texts: "Hypothesis is empty."
TEST(Rouge, OfNothingIsZero) {
    for (const char* text : {"", ".", "..."}) {
        const Rouge got = rouge(text, "a b");
        EXPECT_TRUE(got.empty) << text;
        EXPECT_EQ(got.one.f + got.two.f + got.l.f, 0) << text;
    }
    EXPECT_THROW(rouge("a b", "."), Error);
}

TEST(Rouge, TakesBytesThatAreNoUtf8AsTheyAre) {
    const Rouge got = rouge("a \xff\xfe b", "b \xff\xfe");
    EXPECT_DOUBLE_EQ(got.one.p, 2.0 / 3);
    EXPECT_DOUBLE_EQ(got.one.r, 1);
}

}  // namespace
}  // namespace trireme::test
