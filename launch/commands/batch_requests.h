#pragma once
/// Requests of batch: prompts with settings of their own, from JSON lines (--input), or texts without settings
/// (--data).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/commands/openai_batch.h"
#include "launch/run/chat/chat_renderer.h"
#include "launch/run/checkpoint.h"
#include "launch/run/data_set.h"
#include "launch/run/rank_group.h"
#include "model/files/json.h"

namespace trireme {

/// A request to run, with its prompt as ids. It is the same on every rank.
struct BatchRequest {
    int64_t index = 0;                                          // in the input, from 0
    std::vector<int32_t> ids;                                   // of the prompt
    std::vector<std::pair<std::string, std::string>> settings;  // flag names and values; "stop" may occur several times
    bool streams = false;                                       // its text is reported while it is decoded

    int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
    /// The options `run` of the whole batch, with this request's settings applied.
    Options options(const Options& run) const;
};

/// A request as read from the input; only rank 0 has these.
struct BatchLine {
    std::string where;  // "requests.jsonl:3"
    std::string text;   // the whole line, without its end: copied into the result line
    Json object;        // `text`, parsed
    std::vector<std::pair<std::string, std::string>> settings;  // as in BatchRequest
    std::optional<DataText> data = {};                          // with --data: the prompt, which `object` lacks
    std::optional<OpenAiRequest> openai = {};  // a line of OpenAI's form; `object` is then own_form() of its body
    std::string bad = {};                      // why such a request cannot be run; empty: it can

    /// The reference text for ROUGE, object[key]. Errors: Exit::kData if there is none.
    std::string reference(const std::string& key) const;
};

/// Reads the request of a line; `object` is the line `text`, parsed, and `where` names it. Errors: Exit::kData for a
/// malformed request, kConfig for a setting out of range. A body of OpenAI's form that is malformed is no error:
/// BatchLine::bad.
BatchLine read_batch_line(Json object, std::string_view text, std::string where);
/// Parses the requests that `choice` selects from `text`, the content of the file `name`. Blank lines are skipped;
/// lines that are not selected are not parsed. `waiting` is called for every request. Errors: as parse_json(),
/// read_batch_line() and chosen().
std::vector<BatchLine> parse_batch_lines(std::string_view text, const std::string& name, const DataChoice& choice,
                                         const StillWaiting& waiting = {});
/// Like parse_batch_lines(), for the file of --input. Errors: also those of the file; Exit::kNoInput without lines.
std::vector<BatchLine> read_batch_lines(const Options& options, const DataChoice& choice,
                                        const StillWaiting& waiting = {});
/// Makes requests without settings from the texts of --data. Their `object` is {"source": the text's name, "digest":
/// the XXH3 of the text or of its ids}.
std::vector<BatchLine> lines_of(std::vector<DataText> texts);

/// The ids of a request's prompt. `chat` renders messages, and texts with --chat. Errors: Exit::kData for malformed
/// ids, kConfig for ids outside the vocabulary, and for a prompt that leaves no room for a token in a context of
/// `context` tokens; those of `chat`.
std::vector<int32_t> prompt_of(const BatchLine& line, const Options& options, const Checkpoint& files,
                               ChatRenderer& chat, int64_t context);

/// Returns rank 0's requests on every rank; `mine` of other ranks is not read. A control call.
std::vector<BatchRequest> shared(const RankGroup& rank_group, const std::vector<BatchRequest>& mine);

}  // namespace trireme
