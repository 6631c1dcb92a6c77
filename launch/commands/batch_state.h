#pragma once
/// State of batch on rank 0: the requests, the result file, and ROUGE scores.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "decode/continuation.h"
#include "launch/commands/batch_output.h"
#include "launch/commands/batch_requests.h"
#include "launch/report/rouge.h"
#include "launch/run/engine.h"

namespace trireme {

/// Other ranks have an empty one.
struct BatchState {
    std::vector<BatchLine> lines;  // at least the requests to do, and those of the result file
    DataSet data;                  // of --data; its texts are moved into `lines`
    std::unique_ptr<BatchOutput> output;
    int64_t wanted = 0;        // number of requests that --limit selects, including those that are done
    std::vector<Rouge> rouge;  // with --rouge: of each finished request, in order
    KeyValues settings;        // deciding_settings(): run_batch() sets them; they are written into each new line
    int64_t written = 0;       // lines of the result file, those of earlier runs included
    int64_t failed = 0;        // of them in this run: those of requests that cannot be run (BatchLine::bad)
};

/// Reads the requests, and opens the result file. The file's lines must be those of the first requests. `waiting`: as
/// read_text_file_or_stdin. Errors: of the input and of the output; Exit::kData if a reference text for ROUGE is empty.
BatchState open_books(const Options& options, const StillWaiting& waiting);
/// The requests without a line in the result file, with their prompts as ids. Errors: as prompt_of, and as
/// DataSet::require_made_by. Where a prompt of OpenAI's form has an error, BatchLine::bad says so, and the request is
/// left out.
std::vector<BatchRequest> left_of(BatchState& books, const Options& options, const Engine& engine,
                                  const StillWaiting& waiting);
/// The result line of request `index`, without its end; `seconds` is the request's time. It contains the request as it
/// is in the input. With --rouge, also scores the text and appends the scores to books.rouge.
std::string line_of(BatchState& books, const Options& options, int64_t index, const Continuation& made,
                    int64_t prompt_tokens, double seconds);
/// Appends `line`, the result of request `index`. The lines of bad requests before it come first.
void append_result(BatchState& books, int64_t index, std::string line);
/// Appends the lines of bad requests up to request `end`, if no other one is missing there.
void append_bad(BatchState& books, int64_t end);
/// Logs the mean F-scores of these results, of which there is at least one.
void log_rouge(const std::vector<Rouge>& all);

}  // namespace trireme
