#pragma once
/// Texts that bench's modes continue, as token ids.

#include <cstdint>
#include <string_view>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/run/engine.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

struct BenchTexts {
    std::vector<std::vector<int32_t>> ids;  // [texts], at least one; all have one length
    int64_t left_out = 0;                   // number of texts shorter than --prefill, which are not in `ids`
    /// The length of each text.
    int64_t tokens() const { return static_cast<int64_t>(ids.front().size()); }
};

/// Rank 0 reads the texts of --prompt, --file, --prompt-ids, --data or --dataset. It selects some by --shuffle, --skip
/// and --limit, cuts them to --prefill tokens, and sends them to the other ranks. `n`: tokens to generate after each.
/// All ranks pass, or all throw: errors of the sources; Exit::kUsage for several texts without --prefill; kConfig if
/// none is long enough, or if a text and `n` more tokens exceed the longest context.
BenchTexts read_bench_texts(const Start& start, const RankGroup& rank_group, const Engine& engine, int64_t n);

/// The ids of TriForce's prompt of a book, of `prefill` tokens: its first tokens in LWM's chat form, which requests a
/// summary (build_chat_input_lwm in TriForce's data/dataset.py, where 84 tokens are around the book). No ids if the
/// book is too short.
std::vector<int64_t> book_prompt(const Tokenizer& tokenizer, std::string_view book, int64_t prefill);

}  // namespace trireme
