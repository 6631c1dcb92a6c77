#include "model/tokenizer/stream_decoder.h"

#include <utility>

#include "model/tokenizer/utf8.h"

namespace trireme {

std::string StreamDecoder::push(int32_t id) {
    held_ += tokenizer_.piece(id);
    const size_t certain = held_.size() - utf8_unfinished_tail(held_);
    std::string out = held_.substr(0, certain);
    held_.erase(0, certain);
    return out;
}

std::string StreamDecoder::flush() {
    return std::exchange(held_, {});
}

}  // namespace trireme
