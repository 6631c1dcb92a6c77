// Texts that are put into a token store come back unchanged, in any pieces.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/tokenizer/token_store.h"
#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

RC_GTEST_PROP(TokenStore, GivesBackWhatEverWasAdded, ()) {
    using Text = std::pair<std::string, std::vector<int32_t>>;
    const auto texts = *rc::gen::container<std::vector<Text>>(
        rc::gen::pair(rc::gen::arbitrary<std::string>(),
                      rc::gen::container<std::vector<int32_t>>(rc::gen::inRange<int32_t>(0, 257))));
    const bool add_special = *rc::gen::arbitrary<bool>();
    static const TokenizerIdentity identity = TokenizerIdentity::of(*make_tokenizer(gguf_byte_level("gpt-2", {}, {})));
    const TempFolder folder;

    TokenStoreWriter writer(folder.path() / "t.h5", IfThere::kRefuse, identity, add_special);
    int64_t tokens = 0;
    for (const auto& [name, ids] : texts) {
        writer.add(name, ids);
        tokens += static_cast<int64_t>(ids.size());
    }
    RC_ASSERT(writer.tokens() == tokens);
    writer.publish([] {});

    const TokenStore store(open_file(folder.path() / "t.h5"));
    RC_ASSERT(store.texts() == static_cast<int64_t>(texts.size()));
    RC_ASSERT(store.add_special() == add_special);
    for (size_t i = 0; i < texts.size(); ++i) {
        const auto t = static_cast<int64_t>(i);
        RC_ASSERT(store.name(t) == texts[i].first);
        RC_ASSERT(store.ids(t) == texts[i].second);
        const auto most = *rc::gen::inRange<size_t>(0, texts[i].second.size() + 2);
        const auto end = texts[i].second.begin() + static_cast<std::ptrdiff_t>(std::min(most, texts[i].second.size()));
        RC_ASSERT(store.ids(t, static_cast<int64_t>(most)) == std::vector<int32_t>(texts[i].second.begin(), end));
    }
}

}  // namespace
}  // namespace trireme::test
