#include "decode/continuation.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {
namespace {

std::vector<int32_t> special_stops(const Tokenizer* tokenizer, const std::vector<std::string>& stops) {
    check(tokenizer != nullptr || stops.empty(), "stop strings need a tokenizer");
    std::vector<int32_t> ids;
    for (const std::string& stop : stops) {
        const std::vector<int32_t> encoded = tokenizer->encode(stop, false);
        if (encoded.size() == 1 && tokenizer->is_special(encoded[0])) ids.push_back(encoded[0]);
    }
    return ids;
}

}  // namespace

const char* name_of(StopReason reason) {
    switch (reason) {
        case StopReason::kEos:
            return "eos";
        case StopReason::kStopString:
            return "stop_string";
        case StopReason::kLimit:
            return "limit";
        case StopReason::kContext:
            return "context";
        case StopReason::kInterrupted:
            return "interrupted";
    }
    return "";
}

ContinuationBuilder::ContinuationBuilder(const Tokenizer* tokenizer, const StopRules& rules, int64_t sample,
                                         int64_t most, StopReason at_most, const OnToken& on_token)
    : tokenizer_(tokenizer),
      rules_(rules),
      stop_ids_(special_stops(tokenizer, rules.stop)),
      stop_text_(rules.stop),
      sample_(sample),
      most_(most),
      on_token_(on_token) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
    out_.stop = at_most;
}

bool ContinuationBuilder::is_stop(int32_t id) const {
    return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

void ContinuationBuilder::take(int32_t id) {
    if (done()) return;
    out_.ids.push_back(id);
    std::string text;
    if (std::find(rules_.eos.begin(), rules_.eos.end(), id) != rules_.eos.end()) {
        stop(StopReason::kEos);
    } else if (is_stop(id)) {
        stop(StopReason::kStopString);
    } else if (decoder_ && !tokenizer_->is_special(id)) {  // control tokens produce no text
        text = stop_text_.push(decoder_->push(id));
        if (stop_text_.stopped()) stop(StopReason::kStopString);
    }
    out_.text += text;
    if (on_token_) on_token_(sample_, id, text);
}

void ContinuationBuilder::stop(StopReason reason) {
    if (done_) return;
    out_.stop = reason;
    done_ = true;
}

Continuation ContinuationBuilder::finish() {
    const std::string rest = stop_text_.flush();  // an incomplete character remains in the decoder
    out_.text += rest;
    if (on_token_) on_token_(sample_, -1, rest);
    return std::move(out_);
}

}  // namespace trireme
