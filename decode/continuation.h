#pragma once
/// Continuation of a prompt: the generated ids, their text, and the reason that generation ended. ContinuationBuilder
/// makes it token by token.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/stop_text.h"
#include "model/tokenizer/stream_decoder.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

enum class StopReason { kEos, kStopString, kLimit, kContext, kInterrupted };
const char* name_of(StopReason reason);

/// `ids` holds every generated id, EOS included. `text` ends before EOS, before a stop string, and before an incomplete
/// character. A stop string that is a special token is matched by its id.
struct Continuation {
    std::vector<int32_t> ids;
    std::string text;
    StopReason stop = StopReason::kLimit;
};

/// Token ids and strings that end a continuation before its length limit.
struct StopRules {
    std::vector<int32_t> eos = {};  // empty with --ignore-eos
    std::vector<std::string> stop = {};
};

/// Called on every rank for each token, with the text that has become printable; it may be empty. `sample`: the number
/// that the builder was given. A negative `id` marks the end of the sample; `text` is then the text that was held back.
using OnToken = std::function<void(int64_t sample, int32_t id, std::string_view text)>;

class ContinuationBuilder {
  public:
    /// `tokenizer` may be null if only ids are required; then there are no stop strings. `most`: the limit of tokens;
    /// `at_most`: the stop reason at that limit. `tokenizer`, `rules` and `on_token` must outlive the object.
    ContinuationBuilder(const Tokenizer* tokenizer, const StopRules& rules, int64_t sample, int64_t most,
                        StopReason at_most, const OnToken& on_token);

    /// Tokens until the limit.
    int64_t left() const { return most_ - static_cast<int64_t>(out_.ids.size()); }
    bool done() const { return done_ || left() <= 0; }
    /// Appends a token, unless the continuation is done().
    void take(int32_t id);
    /// Ends it, unless it has ended already.
    void stop(StopReason reason);
    /// Reports the text that was held back, and returns the continuation. No other call may follow.
    Continuation finish();

  private:
    bool is_stop(int32_t id) const;

    const Tokenizer* tokenizer_;
    const StopRules& rules_;
    std::vector<int32_t> stop_ids_;  // stop strings that are special tokens, which produce no text
    std::optional<StreamDecoder> decoder_;
    StopText stop_text_;
    int64_t sample_, most_;
    const OnToken& on_token_;
    bool done_ = false;
    Continuation out_;
};

}  // namespace trireme
