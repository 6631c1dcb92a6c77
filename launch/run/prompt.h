#pragma once
/// Reader of the prompt that --prompt, --file or --prompt-ids name, as token ids. Used on rank 0.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Reads the text of --file as it is. `waiting` and errors: as read_text_file_or_stdin.
std::string read_document(const Options& options, const std::function<void()>& waiting = {});

/// Returns the text of --prompt, or reads that of --file; with --chat, the chat template's text of it. `waiting` and
/// errors: as read_text_file_or_stdin and ChatRenderer.
std::string read_prompt_text(const Options& options, const std::function<void()>& waiting = {});

/// Returns the ids of a text; `add_special`: with the special tokens that the tokenizer's files require (BOS). Warns of
/// bytes that have no token and are left out, and once of a second BOS.
std::vector<int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, bool add_special);

/// Parses a JSON array of whole numbers. `what` names the source. Errors: Exit::kData.
std::vector<int64_t> parse_ids(std::string_view text, std::string_view what);

/// Returns the ids if a model with a vocabulary of `vocab` tokens and a context of `context` tokens can continue them,
/// or score them if `command` is score. `what` names their owner in messages. Errors: Exit::kConfig for too few ids (1,
/// to score 2), an id outside the vocabulary, and more ids than the context allows (a continuation needs one more).
std::vector<int32_t> checked_ids(const std::vector<int64_t>& ids, int64_t vocab, int64_t context, Command command,
                                 std::string_view what = "the prompt");

/// Warns of --system without --chat.
void warn_of_system(const Options& options);

/// Whether BOS is added to texts: `added` unless a flag says otherwise; not with --chat, whose template has it.
bool adds_special(const Options& options, bool added);

/// A prompt: its text, which is empty if it was given as ids, and its ids.
struct Prompt {
    std::string text;
    std::vector<int64_t> ids;
};
/// Reads the prompt that the options name. `tokenizer` may be null if the prompt is ids (--prompt-ids). The ids are not
/// checked against a vocabulary: checked_ids() does that. `waiting` and errors: as read_prompt_text and parse_ids.
Prompt read_prompt(const Options& options, const Tokenizer* tokenizer, const std::function<void()>& waiting = {});

}  // namespace trireme
