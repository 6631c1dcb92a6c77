#pragma once
/// Requests of `trireme pipe`: a JSON object a line, for a continuation, a log probability, token ids or a rendered
/// conversation.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/score.h"
#include "launch/commands/batch_requests.h"
#include "launch/commands/pair_ids.h"
#include "launch/run/chat/chat_renderer.h"

namespace trireme {

/// A request, with its ids. All ranks have the same, except `answer`.
struct PipeRequest {
    enum class Kind { kAnswered, kContinue, kPair, kRolling } kind = Kind::kAnswered;
    int64_t index = 0;                      // of its line, from 0
    BatchRequest continued = {};            // kContinue: its index is also that of the line
    Pair pair = {};                         // kPair; kRolling: ids alone
    std::vector<ScoreWindow> windows = {};  // kRolling
    std::string answer = {};                // kAnswered: the whole line, on rank 0
};

/// The answer's line, with its end.
std::string answer_line(const nlohmann::ordered_json& answer);

/// Reads a request. If it has an error, that is its answer.
///   {"prompt" | "messages" | "input_ids": ..., settings as in batch, "stream": true, "add_special": false,
///    "truncate_left": true}     a prompt that leaves no room for max_tokens loses its first ids
///   {"context": ..., "continuation": ...}      a log probability, as lm-evaluation-harness defines it
///   {"rolling": text}                          of all tokens of a text, in windows of the context, as defined there
///   {"text": ..., "window": N, "stride": M}    of all tokens but the first, in Hugging Face's sliding windows
///   {"tokenize": text, "add_special": false}   token ids
///   {"render": messages}                       the chat template's text
PipeRequest read_pipe_request(std::string_view text, int64_t index, const Options& options, const Checkpoint& files,
                              ChatRenderer& chat, int64_t context);

/// Returns rank 0's requests on every rank; `mine` of other ranks is not read. A control call.
std::vector<PipeRequest> shared(const RankGroup& rank_group, std::vector<PipeRequest> mine);

}  // namespace trireme
