#include "model/tokenizer/tokenizer.h"

namespace trireme {

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
    std::string text;
    for (const int32_t id : ids) text += piece(id);
    return text;
}

}  // namespace trireme
