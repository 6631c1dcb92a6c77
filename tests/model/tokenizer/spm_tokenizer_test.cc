// SentencePiece models: through the library, and by the project's own merging. Both must give the same ids.

#include "model/tokenizer/spm_tokenizer.h"

#include <gtest/gtest.h>

#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "tests/model/files/support.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

std::unique_ptr<Tokenizer> by_library(const SpmModel& model, const SpecialFiles& files = {}) {
    return tokenizer_from_spm(serialize(model), "x.model", files);
}

/// Like by_library(), but with the project's own merging, and sentencepiece's rule for the prefix.
std::unique_ptr<Tokenizer> by_hand(const SpmModel& model) {
    TokenTable table;
    for (const SpmPiece& piece : model.pieces) table.pieces.push_back(text_of(piece));
    table.prefix = PrefixSpace::kAtStart;
    return std::make_unique<SpmTokenizer>(std::move(table), model.pieces);
}

TEST(Spm, JoinsByScore) {
    const SpmModel model = spm_model({"ab", "bc", "a", "b", "c", "abc",
                                      "\u2581"
                                      "a"});  // ids from 260
    for (const auto& tokenizer : {by_library(model), by_hand(model)}) {
        EXPECT_EQ(tokenizer->encode("bc", false), (Ids{259, 261}));
        EXPECT_EQ(tokenizer->encode("babc", false), (Ids{259, 263, 265}));
        EXPECT_EQ(tokenizer->encode("a a", false), (Ids{266, 266}));
        EXPECT_EQ(tokenizer->encode("\u00E9", false), (Ids{259, 3 + 0xC3, 3 + 0xA9}));
        EXPECT_EQ(tokenizer->encode("", false), Ids{});
    }
}

TEST(Spm, CharactersThatAreNoPiecesMayBePartOfOne) {
    const SpmModel model =
        spm_model({"\u00E9"
                   "a",
                   "\u00E9\u00E8"});
    for (const auto& tokenizer : {by_library(model), by_hand(model)}) {
        EXPECT_EQ(tokenizer->encode("\u00E9"
                                    "a",
                                    false),
                  (Ids{259, 260}));
        EXPECT_EQ(tokenizer->encode("\u00E9\u00E8", false), (Ids{259, 261}));
    }
}

TEST(Spm, UserDefinedPiecesWithSpacesAreOneToken) {
    SpmModel model = spm_model({"a", "\u2581\u2581\u2581",
                                "\u2581"
                                "a"});
    model.pieces[261].type = SpmPieceType::kUserDefined;
    for (const auto& tokenizer : {by_library(model), by_hand(model)}) {
        EXPECT_EQ(tokenizer->encode("   a", false), (Ids{261, 262}));
        EXPECT_EQ(tokenizer->decode(Ids{261, 262}), "   a");
        EXPECT_EQ(tokenizer->encode("a   a", false), (Ids{262, 261, 260}));
    }
}

TEST(Spm, BytesThatAreNotUtf8BecomeBytePieces) {
    const SpmModel model = spm_model({"a",
                                      "\u2581"
                                      "a"});
    for (const auto& tokenizer : {by_library(model), by_hand(model)}) {
        for (const char* text : {"\xFF", "a\xFF", " \xC3 a", "\xE4\xBD", "a\xF0\x9F\x98 \x80"})
            EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text);
        EXPECT_EQ(tokenizer->encode("a\xFF"
                                    "a",
                                    false),
                  (Ids{261, 3 + 0xFF, 260}));
    }
}

TEST(Spm, LongTextIsTheSumOfItsParts) {
    const SpmModel model = spm_model({"a", "b",
                                      "\u2581"
                                      "a",
                                      "ab",
                                      "\u2581"
                                      "ab"});
    for (const auto& tokenizer : {by_library(model), by_hand(model)}) {
        std::string text = "ab";
        Ids ids = tokenizer->encode("ab", false);
        for (int i = 0; i < 3000; ++i) {
            text += " ab b";
            ids.insert(ids.end(), {264, 259, 261});
        }
        EXPECT_EQ(tokenizer->encode(text, false), ids);
    }
}

TEST(SentencePiece, PutsASpaceOnlyBeforeTheText) {
    const auto tokenizer =
        by_library(spm_model({"\u2581"
                              "a",
                              "a"}));

    EXPECT_EQ(tokenizer->encode("a<s>a", false), (Ids{260, 1, 261}));
    EXPECT_EQ(tokenizer->encode("<s>a", false), (Ids{1, 261}));
    EXPECT_EQ(tokenizer->encode(" a", false), (Ids{259, 260}));
    EXPECT_EQ(tokenizer->encode("a", true), (Ids{1, 260}));  // Llama's models require BOS
    for (const char* text : {"a", " a", "  a", "a<s> a", "<s> a", "<unk></s>", " "})
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text);
    EXPECT_EQ(tokenizer->piece(260), " a");
    EXPECT_EQ(tokenizer->bos(), 1);
    EXPECT_EQ(tokenizer->eos(), 2);
    EXPECT_EQ(tokenizer->eos_ids(), Ids{2});
    EXPECT_TRUE(tokenizer->is_special(0) && tokenizer->is_special(1) && !tokenizer->is_special(260));
}

TEST(SentencePiece, HasNoPrefixWhereTheModelOrTheFilesSayNo) {
    SpmModel model =
        spm_model({"\u2581"
                   "a",
                   "a"});
    SpecialFiles files;
    files.add_prefix_space = false;
    EXPECT_EQ(by_library(model, files)->encode("a a", false), (Ids{261, 260}));
    model.add_dummy_prefix = false;
    EXPECT_EQ(by_library(model)->encode("a a", false), (Ids{261, 260}));
    EXPECT_EQ(by_library(model)->decode(Ids{260}), " a");
}

TEST(SentencePiece, OfALegacyFolderHasThePrefixAfterTokensToo) {
    SpecialFiles files;
    files.legacy = true;
    const auto tokenizer = by_library(spm_model({"\u2581"
                                                 "a",
                                                 "a"}),
                                      files);
    EXPECT_EQ(tokenizer->encode("a<s>a", false), (Ids{260, 1, 260}));
    EXPECT_EQ(tokenizer->encode("<s>aa", false), (Ids{1, 260, 261}));
    EXPECT_EQ(tokenizer->encode("<s><s>", false), (Ids{1, 1}));
    for (const char* text : {"a", "a<s>a", "<s>a", "<unk></s>"})
        EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false)), text);
}

TEST(SentencePiece, TakesUnigramModels) {
    SpmModel model = spm_model({"a", "b", "ab"});
    model.model_type = SpmModel::kUnigram;
    EXPECT_EQ(by_library(model)->encode("aab", false), (Ids{259, 260, 262}));
}

TEST(SentencePiece, TakesTokensFromTheFilesOfTheFolder) {
    const SpmModel model = spm_model({"a"});
    SpecialFiles files;
    files.what = "folder";
    AddedToken pad;
    pad.text = "<pad>";
    pad.id = 300;
    pad.special = true;
    files.added = {pad};
    files.eos = "<pad>";
    files.add_bos = false;
    const auto tokenizer = by_library(model, files);

    EXPECT_EQ(tokenizer->vocab(), 301);
    EXPECT_EQ(tokenizer->encode("a<pad>", true), (Ids{259, 260, 300}));
    EXPECT_EQ(tokenizer->eos(), 300);
    EXPECT_EQ(tokenizer->piece(299), "");

    const auto refuse = [&](const std::string& text, int32_t id) {
        files.added[0].text = text;
        files.added[0].id = id;
        expect_error([&] { by_library(model, files); }, Exit::kData, {"folder", "contradicts tokenizer.model"});
    };
    refuse("<pad>", 260);
    refuse("a", 300);
}

TEST(SentencePiece, AMegabyteIsNoTrouble) {
    const auto tokenizer = by_library(spm_model({"a", "aa", "aaaa", "\u2581\u2581"}));
    for (const char c : {'a', ' ', '\n', '\xFF'}) {
        const std::string text(1 << 20, c);
        EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text, false)) == text);
    }
}

}  // namespace
}  // namespace trireme::test
