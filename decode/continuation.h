#pragma once
/// One continuation of a prompt as it grows: its ids, its text, and what ends it.

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

/// `ids` has every generated id, EOS included; `text` ends before EOS, before a stop string, and before a character of
/// which only a part was generated. A stop string that is a special token stops at its id.
struct Continuation {
    std::vector<int32_t> ids;
    std::string text;
    StopReason stop = StopReason::kLimit;
};

/// What may end a continuation beside its length.
struct StopRules {
    std::vector<int32_t> eos = {};  // empty with --ignore-eos
    std::vector<std::string> stop = {};
};

/// Called on every rank as text becomes printable; text may be empty. `id` < 0: the sample's end, and what was held.
using OnToken = std::function<void(int64_t sample, int32_t id, std::string_view text)>;

class ContinuationBuilder {
  public:
    /// `tokenizer` may be null when only ids are wanted; then there are no stop strings. `most`: tokens it may have;
    /// `at_most` is why it ends there.
    ContinuationBuilder(const Tokenizer* tokenizer, const StopRules& rules, int64_t sample, int64_t most,
                        StopReason at_most, const OnToken& on_token);

    int64_t left() const { return most_ - static_cast<int64_t>(out_.ids.size()); }
    bool done() const { return done_ || left() <= 0; }
    /// One more token, unless it is done.
    void take(int32_t id);
    /// Ends it, unless it has ended already.
    void stop(StopReason reason);
    /// The end: shows the text that was held back.
    Continuation finish();

  private:
    bool is_stop(int32_t id) const;

    const Tokenizer* tokenizer_;
    const StopRules& rules_;
    std::vector<int32_t> stop_ids_;  // of stop strings that are special tokens: they leave no text to be found in
    std::optional<StreamDecoder> decoder_;
    StopText stop_text_;
    int64_t sample_, most_;
    const OnToken& on_token_;
    bool done_ = false;
    Continuation out_;
};

}  // namespace trireme
