#include "model/tokenizer/token_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/files/store/writer.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

TokenizerIdentity identity() {
    return TokenizerIdentity::of(*make_tokenizer(gguf_byte_level("gpt-2", {}, {})));  // 257 ids
}

TEST(TokenStore, GivesBackWhatWasAdded) {
    const TempFolder folder;
    const fs::path path = folder.path() / "t.h5";
    std::vector<int32_t> huge(700001);  // several blocks
    for (size_t i = 0; i < huge.size(); ++i) huge[i] = static_cast<int32_t>(i * 7 % 257);
    TokenStoreWriter writer(path, IfThere::kRefuse, identity(), /*add_special=*/true);
    writer.add("a.txt", std::vector<int32_t>{1, 2, 256});
    writer.add("", {});
    writer.add("b\xFF.jsonl:3", huge);
    writer.add("c", {});
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 0);
    int proceeded = 0;
    writer.publish([&] { ++proceeded; });
    EXPECT_GE(proceeded, 3);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);

    const TokenStore store(open_file(path));
    EXPECT_EQ(store.texts(), 4);
    EXPECT_TRUE(store.add_special());
    EXPECT_EQ(store.tokenizer().difference(identity()), "");
    EXPECT_THAT(store.ids(0), ElementsAre(1, 2, 256));
    EXPECT_THAT(store.ids(0, 2), ElementsAre(1, 2));
    EXPECT_THAT(store.ids(0, 0), ElementsAre());
    EXPECT_THAT(store.ids(1), ElementsAre());
    EXPECT_EQ(store.ids(2), huge);
    EXPECT_EQ(store.ids(2, 300000), std::vector<int32_t>(huge.begin(), huge.begin() + 300000));
    EXPECT_EQ(store.length(2), 700001);
    EXPECT_THAT(store.ids(3), ElementsAre());
    EXPECT_EQ(store.name(0), "a.txt");
    EXPECT_EQ(store.name(1), "");
    EXPECT_EQ(store.name(2), "b\xFF.jsonl:3");
    expect_error([&] { (void)store.ids(4); }, Exit::kInternal, {"text 4 of 4"});
}

// Texts of about 100,000 ids, which end at many positions of blocks (262,144 ids), read in several orders.
TEST(TokenStore, GivesTextsInAnyOrder) {
    const TempFolder folder;
    TokenStoreWriter writer(folder.path() / "t.h5", IfThere::kRefuse, identity(), false);
    std::vector<std::vector<int32_t>> texts;
    for (int32_t t = 0; t < 12; ++t) {
        texts.emplace_back();
        for (int32_t i = 0; i < 87381 + t * 4099; ++i) texts.back().push_back((i * 31 + t) % 257);
        writer.add("", texts.back());
    }
    writer.publish([] {});
    const TokenStore store(open_file(folder.path() / "t.h5"));
    for (const int64_t step : {1, 5, 7, 11}) {
        for (int64_t i = 0; i < 12; ++i) {
            const int64_t t = i * step % 12;
            ASSERT_EQ(store.ids(t), texts[static_cast<size_t>(t)]) << t;
        }
    }
}

TEST(TokenStore, MayHaveNoTextsOrNoIds) {
    const TempFolder folder;
    for (const int texts : {0, 1, 2}) {
        const fs::path path = folder.path() / fmt::format("{}.h5", texts);
        TokenStoreWriter writer(path, IfThere::kRefuse, identity(), false);
        for (int i = 0; i < texts; ++i) writer.add("", {});
        writer.publish([] {});
        const TokenStore store(open_file(path));
        EXPECT_EQ(store.texts(), texts);
        EXPECT_FALSE(store.add_special());
        for (int i = 0; i < texts; ++i) EXPECT_THAT(store.ids(i), ElementsAre());
    }
}

TEST(TokenStore, AppearsWholeOrNotAtAll) {
    const TempFolder folder;
    const fs::path path = folder.write("t.h5", "old");
    {
        TokenStoreWriter writer(path, IfThere::kReplace, identity(), false);
        writer.add("a", std::vector<int32_t>{1});
        expect_error(
            [&] {
                writer.add("b", std::vector<int32_t>{1, 257});
            },
            Exit::kData, {"b: id 257 at index 1", "want 0 to 256"});
        expect_error([&] { writer.add("b", std::vector<int32_t>{-1}); }, Exit::kData, {"id -1 at index 0"});
        expect_error([&] { writer.publish([] { fail(Exit::kIo, "stop"); }); }, Exit::kIo, {"stop"});
    }
    EXPECT_EQ(slurp(path), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
    TokenStoreWriter writer(path, IfThere::kRefuse, identity(), false);
    writer.add("a", std::vector<int32_t>{1});
    expect_error([&] { writer.publish([] {}); }, Exit::kCantCreate, {"exists"});
}

/// A store that another program may have written: its digests are right, and nothing else need be.
struct Made {
    std::string kind = std::string(kTokenStore);
    std::vector<int32_t> ids = {5, 6, 7};
    std::vector<int64_t> offsets = {0, 2, 3};
    std::string names = "ab";
    std::vector<int64_t> name_offsets = {0, 1, 2};
    DType type = DType::kI32;
    std::string without;  // the name of a set
    Json about = {{"texts", 2}, {"tokens", 3}, {"add_special", false}, {"tokenizer", identity().to_json()}};

    fs::path write(const fs::path& folder) const {
        const fs::path path = folder / "m.h5";
        const auto n = [](const auto& values) { return static_cast<int64_t>(values.size()); };
        const std::vector<std::pair<StoreSet, std::span<const std::byte>>> all = {
            {{.name = "ids", .type = type, .shape = {n(ids)}}, std::as_bytes(std::span(ids))},
            {{.name = "offsets", .type = DType::kI64, .shape = {n(offsets)}}, std::as_bytes(std::span(offsets))},
            {{.name = "names", .type = DType::kU8, .shape = {n(names)}}, std::as_bytes(std::span(names))},
            {{.name = "name_offsets", .type = DType::kI64, .shape = {n(name_offsets)}},
             std::as_bytes(std::span(name_offsets))}};
        std::vector<StoreSet> sets;
        for (const auto& [set, bytes] : all) {
            if (set.name != without) sets.push_back(set);
        }
        StoreWriter writer(path, IfThere::kReplace, kind, sets, about.dump());
        size_t i = 0;
        for (const auto& [set, bytes] : all) {
            if (set.name != without) writer.append(i++, bytes);
        }
        writer.publish();
        return path;
    }
};

/// Checks that reading the whole store is refused, with these words in the message.
template <class F>
void expect_refused(F change, const std::vector<std::string>& words) {
    const TempFolder folder;
    Made made;
    change(made);
    std::vector<std::string> all = words;
    all.emplace_back("m.h5");
    expect_error(
        [&] {
            const TokenStore store(open_file(made.write(folder.path())));
            for (int64_t t = 0; t < store.texts(); ++t) {
                (void)store.name(t);
                (void)store.ids(t);
            }
        },
        Exit::kData, all);
}

TEST(TokenStore, TrustsNoNumber) {
    const TempFolder folder;
    const TokenStore fine(open_file(Made().write(folder.path())));
    EXPECT_THAT(fine.ids(0), ElementsAre(5, 6));
    EXPECT_THAT(fine.ids(1), ElementsAre(7));

    expect_refused([](Made& m) { m.kind = "kv snapshot"; }, {"kv snapshot", "token data set"});
    for (const char* set : {"ids", "offsets", "names", "name_offsets"}) {
        expect_refused([&](Made& m) { m.without = set; }, {fmt::format("no data set '{}'", set)});
    }
    expect_refused([](Made& m) { m.type = DType::kF32; }, {"no data set 'ids' of i32"});
    expect_refused([](Made& m) { m.offsets = {0, 3}; }, {"'offsets' has 2 rows, 2 texts want 3"});
    expect_refused([](Made& m) { m.offsets = {}; }, {"'offsets' has 0 rows"});
    expect_refused([](Made& m) { m.offsets = {1, 2, 3}; }, {"'offsets' goes from 1 to 3, not from 0 to 3"});
    expect_refused([](Made& m) { m.offsets = {0, 2, 2}; }, {"not from 0 to 3"});
    expect_refused([](Made& m) { m.offsets = {0, 2, 4}; }, {"not from 0 to 3"});
    expect_refused([](Made& m) { m.offsets = {0, 4, 3}; }, {"'offsets' has 3 after 4: out of order"});
    expect_refused([](Made& m) { m.offsets = {0, -1, 3}; }, {"'offsets' has -1 after 0: out of order"});
    expect_refused([](Made& m) { m.offsets = {0, INT64_MIN, 3}; }, {"out of order"});
    expect_refused([](Made& m) { m.name_offsets = {0, 3, 2}; }, {"'name_offsets' has 2 after 3"});
    expect_refused([](Made& m) { m.name_offsets = {0, 1, 1}; }, {"'name_offsets' goes from 0 to 1, not from 0 to 2"});
    expect_refused([](Made& m) { m.ids[2] = 257; }, {"text 1 has the id 257 at index 0", "vocabulary of 257"});
    expect_refused([](Made& m) { m.ids[1] = -1; }, {"text 0 has the id -1 at index 1"});
    expect_refused([](Made& m) { m.about["tokens"] = 4; }, {"3 ids, ", " 4"});
    expect_refused([](Made& m) { m.about["tokens"] = -3; }, {"'tokens' is -3"});
    expect_refused([](Made& m) { m.about["texts"] = int64_t{1} << 52; }, {"texts want"});
    expect_refused([](Made& m) { m.about["texts"] = -1; }, {"'texts' is -1"});
    expect_refused([](Made& m) { m.about["texts"] = "two"; }, {"'texts' is \"two\""});
    expect_refused([](Made& m) { m.about["add_special"] = 1; }, {"'add_special' is 1"});
    expect_refused([](Made& m) { m.about.erase("add_special"); }, {"'add_special' is missing"});
    expect_refused([](Made& m) { m.about.erase("tokenizer"); }, {"by which tokenizer"});
    expect_refused([](Made& m) { m.about["tokenizer"] = 3; }, {"not a JSON object"});
    expect_refused([](Made& m) { m.about = Json::array(); }, {"not a JSON object"});
}

}  // namespace
}  // namespace trireme::test
