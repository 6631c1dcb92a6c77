#pragma once
/// The requests of a batch: a JSON object a line.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/run/checkpoint.h"
#include "launch/run/crew.h"
#include "launch/run/data_set.h"
#include "model/files/json.h"

namespace trireme {

/// A request that is to be done; the same on every rank.
struct BatchRequest {
    int64_t index = 0;         // in the input, from 0
    std::vector<int32_t> ids;  // of its prompt
    std::vector<std::pair<std::string, std::string>>
        settings;  // flags by their names, and what it says instead of them

    int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
    /// The run's, with what the request says instead.
    Options options(const Options& run) const;
};

/// A request as it stands in the input; rank 0 alone has these.
struct BatchLine {
    std::string where;  // "requests.jsonl:3"
    std::string text;   // the whole line, without its end
    Json object;
    std::vector<std::pair<std::string, std::string>> settings;  // as in BatchRequest
    std::optional<DataText> data = {};                          // of --data: the prompt, which `object` does not have

    /// What the generated text is compared with. Errors: Exit::kData.
    std::string reference(const std::string& key) const;
};

/// The requests that `choice` takes of `text`, which `name` holds; lines of blanks are none, and what is not taken is
/// not looked at. `waiting`: as read_text_file_or_stdin, line by line. Errors: Exit::kData for a line that is no
/// request, kConfig for a setting out of range; those of chosen().
std::vector<BatchLine> parse_batch_lines(std::string_view text, const std::string& name, const DataChoice& choice,
                                         const StillWaiting& waiting = {});
/// The same of what --input names. Errors: of the file, too; Exit::kNoInput where there are none.
std::vector<BatchLine> read_batch_lines(const Options& options, const DataChoice& choice,
                                        const StillWaiting& waiting = {});
/// Texts as requests without settings of their own: {"source", "digest"}, the XXH3 of the text, or of its ids.
std::vector<BatchLine> lines_of(std::vector<DataText> texts);

/// The ids of a request's prompt. Errors: Exit::kData for ids that are none, kConfig for ids outside the vocabulary and
/// for more than `context` tokens leave room for.
std::vector<int32_t> prompt_of(const BatchLine& line, const Options& options, const Checkpoint& files, int64_t context);

/// What rank 0 has, on every rank.
std::vector<BatchRequest> shared(const Crew& crew, const std::vector<BatchRequest>& mine);

}  // namespace trireme
