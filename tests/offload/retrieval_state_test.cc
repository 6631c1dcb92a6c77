// What a RetrievalSet holds after a snapshot, a fork and another prompt.

#include <vector>

#include <gtest/gtest.h>

#include "tests/offload/retrieval_text.h"
#include "tests/support/byte_archive.h"

namespace trireme::test {
namespace {

/// Writes the text and its set to an archive, and restores both in `to`.
void resume(RetrievalText& from, RetrievalText& to) {
    ByteArchive archive;
    from.cache.state(archive);
    from.set.state(archive);
    archive.rewind();
    to.cache.state(archive);
    to.set.state(archive);
    to.stream->synchronize();
}

// The selected tiles, the chunks' means and the prompt's selection are in a snapshot.
TEST(RetrievalSet, ContinuesFromASnapshot) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        const RetrievalShape shape = {.budget = 64, .chunk = kChunk, .comes_back = true};
        RetrievalText text(on_chip, shape), resumed(on_chip, shape);
        text.prefill(kPrompt);
        text.sign = -1;
        for (int i = 0; i < 30; ++i) text.step();
        resume(text, resumed);
        resumed.sign = -1;
        resumed.expect(kPrompt + 29, kPrompt + 30, "restored");
        resumed.sign = 1;
        resumed.step();
        resumed.expect(kPrompt + 30, kPrompt + 31, "selected after that");
        resumed.cache.truncate(0, kPrompt);
        resumed.stream->synchronize();
        resumed.expect(kPrompt, kPrompt, "the prompt's selection");
    }
}

TEST(RetrievalSet, ContinuesFromASnapshotOfNothingAndOfAFullSet) {
    const RetrievalShape shape = {.budget = kShape.context, .chunk = kChunk, .comes_back = true};
    for (const int64_t n : {int64_t{0}, int64_t{1}, kShape.context}) {
        RetrievalText text({true, false}, shape), resumed({true, false}, shape);
        if (n > 0) text.prefill(n);
        resume(text, resumed);
        resumed.expect(n, n, fmt::format("{} tokens", n));
        EXPECT_EQ(resumed.set.slots(), n);
    }
}

TEST(RetrievalSet, ForksWithItsSequence) {
    const RetrievalShape shape = {.budget = 64, .chunk = kChunk};
    KvShape two = kShape;
    two.sequences = 2;
    two.common = kPrompt / kTileTokens * kTileTokens;
    for (const std::vector<bool>& on_chip : kResidencies) {
        RetrievalText text(on_chip, shape, /*graphs=*/false, /*read=*/true, two);
        RetrievalSet other(*text.device, *text.stream, text.cache, shape, 1);
        text.prefill(kPrompt);
        text.cache.fork(1);
        text.sequence = 1;
        text.seen = &other;
        text.stream->synchronize();
        text.expect(kPrompt, kPrompt, "the prompt's selection");
        other.choose_again(true);
        text.sign = -1;
        for (int i = 0; i < 3; ++i) text.step();
        text.expect(kPrompt + 2, kPrompt + 3, "selected again");
        text.seen = &text.set;
        text.sign = 1;
        text.expect(kPrompt, kPrompt, "the first sequence's set");
    }
}

// A prompt of one token after another text: what is kept is the new prompt's.
TEST(RetrievalSet, BeginsAgainWithAShortPrompt) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk, .every = 1});
    for (const int64_t n : {kPrompt, int64_t{1}, int64_t{1}}) {
        text.prefill(n);
        text.cache.truncate(0, n);
        text.stream->synchronize();
        text.expect(n, n, "the prompt");
    }
}

}  // namespace
}  // namespace trireme::test
