#include "model/tokenizer/cut_points.h"

#include <algorithm>

#include "model/tokenizer/utf8.h"

namespace trireme {

void CutPoints::add_token(std::string_view token) {
    size_t length = utf8_length(token);
    if (length > 0 && length == token.size()) characters_.insert(utf8_code_point(token));
    while (length > 0 && length < token.size()) {
        const uint32_t left = utf8_code_point(token);
        token.remove_prefix(length);
        length = utf8_length(token);
        if (length > 0) pairs_.insert(key(left, utf8_code_point(token)));
    }
}

size_t CutPoints::part(std::string_view text, size_t least, uint32_t space) const {
    if (text.size() <= least || characters_.empty()) return text.size();
    bool left_known = false;
    uint32_t left = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_length(text.substr(at));
        const bool near = at + 4 >= least;  // earlier characters are not looked up
        uint32_t right = near && length > 0 ? utf8_code_point(text.substr(at)) : 0;
        if (right == ' ') right = space;
        const bool right_known = near && length > 0 && characters_.contains(right);
        if (at >= least && left_known && right_known && !pairs_.contains(key(left, right))) return at;
        left = right;
        left_known = right_known;
        at += std::max<size_t>(1, length);
    }
    return text.size();
}

}  // namespace trireme
