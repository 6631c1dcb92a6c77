#pragma once
/// StreamDecoder: decodes ids to text while they are generated, for output and stop strings. One per sequence.

#include <string>

#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Holds back the bytes of an unfinished UTF-8 character, so that no output ends inside a character. Bytes that can no
/// longer become a character come out as they are. The tokenizer must outlive the decoder.
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    /// Returns the text that is complete with `id` and was not returned before; it may be empty.
    std::string push(int32_t id);
    /// Returns the bytes that are held back, at most 3, at the end of the text.
    std::string flush();

  private:
    const Tokenizer& tokenizer_;
    std::string held_;  // the beginning of a character
};

}  // namespace trireme
