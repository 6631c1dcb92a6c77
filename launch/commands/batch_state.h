#pragma once
/// State of a batch on rank 0: requests, finished lines, ROUGE scores.

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

struct BatchState {
    std::vector<BatchLine> lines;
    DataSet data;  // of --data; its texts are moved into `lines`
    std::unique_ptr<BatchOutput> output;
    int64_t wanted = 0;  // number of requests, including those that are done
    std::vector<Rouge> rouge;
    KeyValues settings;  // written into each new line
};

/// Opens input and output. `waiting`: as read_text_file_or_stdin. Errors: of the input and of the output; Exit::kData
/// if a reference text for ROUGE is empty.
BatchState open_books(const Options& options, const StillWaiting& waiting);
/// The requests that are not done yet. Errors: as prompt_of, and as DataSet::require_made_by.
std::vector<BatchRequest> left_of(const BatchState& books, const Options& options, const Engine& engine,
                                  const StillWaiting& waiting);
/// The output line of a finished request. It contains the request as it is in the input.
std::string line_of(BatchState& books, const Options& options, int64_t index, const Continuation& made,
                    int64_t prompt_tokens, double seconds);
void log_rouge(const std::vector<Rouge>& all);

}  // namespace trireme
