#pragma once
/// Reader of the prompt that --prompt, --file or --prompt-ids name, as token ids.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Reads the text that --prompt or --file name. `waiting` and errors: as read_text_file_or_stdin.
std::string read_prompt_text(const Options& options, const std::function<void()>& waiting = {});

/// Returns the ids of a text. Warns of bytes that the tokenizer leaves out, as the references do.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, bool add_special);

/// Parses a JSON array of whole numbers. `what` names the source. Errors: Exit::kData.
std::vector<int64_t> parse_ids(std::string_view text, std::string_view what);

/// Returns the ids if a model of `vocab` tokens and a context of `context` tokens can continue them (generate), or
/// score them (score). `what` names their owner in messages. Errors: Exit::kConfig for too few ids, for an id outside
/// the vocabulary, and for more ids than the context allows.
std::vector<int32_t> checked_ids(const std::vector<int64_t>& ids, int64_t vocab, int64_t context, Command command,
                                 std::string_view what = "the prompt");

/// Reads the ids of the prompt that the options name. `tokenizer` may be null if the prompt is ids. The ids are not yet
/// checked against a model.
std::vector<int64_t> read_prompt_ids(const Options& options, const Tokenizer* tokenizer, bool add_special,
                                     const std::function<void()>& waiting = {});

}  // namespace trireme
