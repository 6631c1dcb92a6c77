#pragma once
/// Lines of OpenAI's batch form: requests {custom_id, method, url, body}, and results as vLLM's run-batch writes them
/// (neighbours.md, section 5).

#include <cstdint>
#include <string>
#include <string_view>

#include "decode/continuation.h"
#include "dist/agreement.h"
#include "model/files/json.h"

namespace trireme {

/// What a result line repeats of its request.
struct OpenAiRequest {
    std::string custom_id;
    bool chat = false;  // /v1/chat/completions; else /v1/completions
    std::string model;  // as the request names it; empty: --model
    std::string id;     // of the result: a digest of the line
};

/// The field's name of why a text ended: "length" or "stop".
const char* finish_reason(StopReason stop);

/// Whether a line has this form: an object with custom_id and body.
bool is_openai(const Json& line);

/// Reads the parts of a line besides its body. Errors: Exit::kData for a custom_id that is no text, a method other than
/// POST, and a url other than the two.
OpenAiRequest read_openai(const Json& line, std::string_view text, const std::string& where);

/// Returns the body as a request of batch's own form: messages, prompt or input_ids, and settings under their own
/// names. null counts as absent. A completion without max_tokens has 16. Errors: Exit::kData for a member that batch
/// does not support (n above 1, logprobs, streams, unknown names), and for several prompts.
Json own_form(const OpenAiRequest& request, const Json& body, const std::string& where);

/// The "id" of the request's result line.
std::string openai_id(const OpenAiRequest& request);
/// A result line without its end. `fingerprint`: fingerprint_of() the run's settings.
std::string openai_result(const OpenAiRequest& request, const std::string& model, const Continuation& made,
                          int64_t prompt_tokens, const std::string& fingerprint);
/// The line of a request that was not run.
std::string openai_error(const OpenAiRequest& request, const std::string& message, const std::string& fingerprint);

/// Digest of a run's settings: the system_fingerprint of its results.
std::string fingerprint_of(const KeyValues& settings);

}  // namespace trireme
