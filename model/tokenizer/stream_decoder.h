#pragma once
/// StreamDecoder: decodes ids to text while they are generated.

#include <string>

#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Holds back the bytes of an unfinished UTF-8 character, so that no output ends inside a character. Bytes that can no
/// longer become a character come out as they are. The tokenizer must outlive the decoder.
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

    /// Returns the text that is certain after `id`; often empty inside a character.
    std::string push(int32_t id);
    /// Returns the rest, at the end of the text: at most 3 bytes.
    std::string flush();

  private:
    const Tokenizer& tokenizer_;
    std::string held_;
};

}  // namespace trireme
