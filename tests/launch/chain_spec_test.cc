#include "launch/flags/chain_spec.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(ChainSpec, ReadsNamesAndWrittenChains) {
    using P = Part;
    const std::pair<const char*, std::vector<Part>> cases[] = {
        {"none", {}},
        {"full", {}},
        {"ngram", {P::kNgram}},
        {"suffix", {P::kSuffix}},
        {"suffix+retrieval+full", {P::kSuffix, P::kRetrieval}},
        {"h2o", {P::kH2o}},
        {"h2o+full", {P::kH2o}},
        {"h2o+retrieval+full", {P::kH2o, P::kRetrieval}},
        {"retrieval", {P::kRetrieval}},
        {"retrieval+full", {P::kRetrieval}},
        {"tree", {P::kRetrieval}},
        {"triforce", {P::kDraft, P::kRetrieval}},
        {"draft+retrieval+full", {P::kDraft, P::kRetrieval}},
        {"window+retrieval+full", {P::kWindow, P::kRetrieval}},
        {"ngram+draft+window+retrieval+full", {P::kNgram, P::kDraft, P::kWindow, P::kRetrieval}},
    };
    for (const auto& [text, parts] : cases) {
        const auto chain = parse_chain(text);
        ASSERT_TRUE(chain) << text;
        EXPECT_EQ(chain->parts, parts) << text;
        EXPECT_EQ(chain->tree, std::string_view(text) == "tree");
        EXPECT_EQ(parse_chain(text_of(*chain)), chain) << text;
    }
    EXPECT_EQ(text_of(*parse_chain("triforce")), "draft+retrieval+full");
    EXPECT_EQ(text_of(*parse_chain("ngram+full")), "ngram");
}

TEST(ChainSpec, RefusesWhatIsNoChain) {
    for (const char* text : {"", "medusa", "+", "+full", "draft+", "draft+retrieval", "full+draft", "draft+draft+full",
                             "draft+ngram+full", "draft+suffix+full", "ngram+suffix+full", "retrieval+full+full",
                             "draft++full", "none+full", "triforce+full", "tree+full", "Draft", " draft"}) {
        EXPECT_FALSE(parse_chain(text)) << text;
    }
}

}  // namespace
}  // namespace trireme::test
