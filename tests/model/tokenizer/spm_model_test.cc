#include "model/tokenizer/spm_model.h"

#include <limits>

#include <gtest/gtest.h>

#include "model/tokenizer/wire.h"
#include "tests/model/files/support.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

void expect_refused(const SpmModel& model, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.emplace_back("x.model");
    expect_error([&] { read_spm_model(serialize(model), "x.model"); }, Exit::kData, all);
}

std::string little_endian(const std::vector<uint32_t>& words) {
    std::string bytes;
    for (const uint32_t word : words) {
        for (int i = 0; i < 4; ++i) bytes += static_cast<char>(static_cast<uint8_t>(word >> (8 * i)));
    }
    return bytes;
}

/// A character map that maps "a" to `text`: the root's children are in the second block of 256 units, the leaf of "a"
/// in the third.
std::string charsmap(const std::string& texts, uint32_t value = 0, uint32_t leaf_offset = 0x200 ^ (0x100 ^ 'a')) {
    std::vector<uint32_t> units(0x300);
    units[0] = 0x100u << 10;
    units[0x100 ^ 'a'] = 'a' | 1u << 8 | leaf_offset << 10;
    units[(0x100 ^ 'a') ^ leaf_offset] = 0x80000000u | value;
    return little_endian({0x300 * 4}) + little_endian(units) + texts;
}

TEST(SpmModel, ReadsWhatItWrites) {
    SpmModel model = spm_model({"a",
                                "\u2581"
                                "ab"});
    model.pieces[261].type = SpmPieceType::kUserDefined;
    model.add_dummy_prefix = false;
    model.remove_extra_whitespaces = true;
    model.charsmap = charsmap(std::string("bc\0", 3));
    const SpmModel read = read_spm_model(serialize(model), "x.model");

    ASSERT_EQ(read.pieces.size(), 262u);
    for (size_t i = 0; i < read.pieces.size(); ++i) {
        EXPECT_EQ(read.pieces[i].text, model.pieces[i].text);
        EXPECT_EQ(read.pieces[i].score, model.pieces[i].score);
        EXPECT_EQ(read.pieces[i].type, model.pieces[i].type);
    }
    EXPECT_EQ(read.model_type, SpmModel::kBpe);
    EXPECT_TRUE(read.byte_fallback);
    EXPECT_FALSE(read.add_dummy_prefix);
    EXPECT_TRUE(read.remove_extra_whitespaces);
    EXPECT_EQ(read.charsmap, model.charsmap);
}

TEST(SpmModel, SkipsFieldsItDoesNotKnow) {
    WireWriter more;
    more.bytes(200, "an extension");
    more.varint(9, 7);
    EXPECT_EQ(read_spm_model(serialize(spm_model({})) + more.text(), "x.model").pieces.size(), 260u);
}

TEST(SpmModel, RefusesBadPieces) {
    const SpmModel good = spm_model({"a", "b"});
    const auto refuse = [&](const std::function<void(SpmModel&)>& spoil, const std::string& part) {
        SpmModel bad = good;
        spoil(bad);
        expect_refused(bad, {part});
    };
    refuse([](SpmModel& m) { m.pieces[261] = {"a"}; }, "piece 261 'a' is there twice");
    refuse([](SpmModel& m) { m.pieces[261] = {"<s>"}; }, "piece 261 '<s>' is there twice");
    refuse([](SpmModel& m) { m.pieces[261] = {""}; }, "piece 261 has 0 bytes");
    refuse([](SpmModel& m) { m.pieces[261] = {std::string(1 << 20, 'x')}; }, "piece 261 has 1048576 bytes");
    refuse([](SpmModel& m) { m.pieces[261] = {"\xFF"}; }, "not UTF-8");
    refuse([](SpmModel& m) { m.pieces[261] = {std::string("b\0", 2)}; }, "not UTF-8");
    refuse([](SpmModel& m) { m.pieces[261].score = std::numeric_limits<float>::quiet_NaN(); }, "score of piece 261");
    refuse([](SpmModel& m) { m.pieces[261].score = std::numeric_limits<float>::infinity(); }, "score of piece 261");
    refuse([](SpmModel& m) { m.pieces[261].type = static_cast<SpmPieceType>(7); }, "piece 261 has the type 7");
    refuse([](SpmModel& m) { m.pieces[261].type = SpmPieceType::kByte; }, "byte piece 261 is 'b'");
    refuse([](SpmModel& m) { m.pieces[3] = {"<0x-1>", 0, SpmPieceType::kByte}; }, "byte piece 3 is '<0x-1>'");
    refuse([](SpmModel& m) { m.pieces[261].type = SpmPieceType::kUnknown; }, "2 pieces of type");
    refuse([](SpmModel& m) { m.pieces[0].type = SpmPieceType::kControl; }, "0 pieces of type");
    refuse([](SpmModel& m) { m.pieces.erase(m.pieces.begin() + 9); }, "255 of 256 byte pieces");
    refuse([](SpmModel& m) { m.pieces[259] = {"c"}; }, "U+2581");
    refuse([](SpmModel& m) { m.pieces[259].type = SpmPieceType::kControl; }, "U+2581");
    refuse([](SpmModel& m) { m.pieces.clear(); }, "0 pieces of type");
}

TEST(SpmModel, RefusesRulesItDoesNotKnow) {
    const SpmModel good = spm_model({"a"});
    SpmModel bad = good;
    bad.model_type = 3;
    expect_refused(bad, {"model_type 3 is not supported"});
    bad = good;
    bad.byte_fallback = false;
    expect_refused(bad, {"byte_fallback=false"});
    bad = good;
    bad.escape_whitespaces = false;
    expect_refused(bad, {"escape_whitespaces"});

    WireWriter suffix, denormalizer, trainer;
    suffix.varint(24, 1);
    trainer.bytes(2, suffix.text());
    expect_error([&] { read_spm_model(serialize(good) + trainer.text(), "x.model"); }, Exit::kData, {"as_suffix"});
    WireWriter map;
    map.bytes(2, "xxxxx");
    denormalizer.bytes(5, map.text());
    expect_error([&] { read_spm_model(serialize(good) + denormalizer.text(), "x.model"); }, Exit::kData,
                 {"denormalizer"});
}

TEST(SpmModel, RefusesWhatIsCutOff) {
    const std::string whole = serialize(spm_model({"a"}));
    const auto read = [&](size_t size) { read_spm_model(std::string_view(whole).substr(0, size), "x.model"); };
    for (size_t size = 0; size < whole.size(); ++size) EXPECT_THROW(read(size), Error) << size;
    const size_t last_field = whole.rfind('\x1A');  // a sound message without its last field
    expect_error([&] { read(last_field); }, Exit::kData, {"x.model", "no normalizer_spec", "cut off"});
}

TEST(SpmModel, TextOfAPiece) {
    EXPECT_EQ(text_of({"\u2581"
                       "a\u2581",
                       0, SpmPieceType::kNormal}),
              " a ");
    EXPECT_EQ(text_of({"<0x0A>", 0, SpmPieceType::kByte}), "\n");
    EXPECT_EQ(text_of({"<0x0A>", 0, SpmPieceType::kNormal}), "<0x0A>");
    EXPECT_EQ(text_of({"</s>", 0, SpmPieceType::kControl}), "</s>");
}

TEST(Charsmap, AcceptsOneThatStaysInside) {
    EXPECT_NO_THROW(check_charsmap(charsmap(std::string("bc\0", 3)), "x.model"));
    EXPECT_NO_THROW(check_charsmap(charsmap(std::string("bc\0", 3), 2), "x.model"));
}

TEST(Charsmap, RefusesOneThatLeadsAstray) {
    const std::string text("b\0", 2);
    const auto refuse = [](const std::string& map, const std::string& part) {
        expect_error([&] { check_charsmap(map, "x.model"); }, Exit::kData, {"x.model", part});
    };
    refuse("abcd", "4 bytes");
    refuse(std::string(5 << 20, 'x'), "5242880 bytes");
    refuse(little_endian({8, 0}) + text, "do not fit");
    refuse(little_endian({4, 0}), "do not fit");
    refuse(little_endian({6, 0}) + "abcdefgh", "do not fit");
    refuse(little_endian({0}) + text, "do not fit");
    refuse(little_endian({0xFFFFFFFF, 0}) + text, "do not fit");
    refuse(charsmap("b"), "has no end");
    refuse(charsmap(text, 2), "maps to byte 2 of 2");
    refuse(charsmap(text, 0x7FFFFFFF), "maps to byte 2147483647");
    refuse(charsmap(std::string(2000, 'x') + '\0'), "more than 1024 bytes");
    refuse(little_endian({4, 0}) + text, "outside its 1 nodes");
    std::string far = charsmap(text);
    far[5] = '\xFC';  // the root's offset
    far[6] = '\xFF';
    refuse(far, "outside its 768 nodes");
}

}  // namespace
}  // namespace trireme::test
