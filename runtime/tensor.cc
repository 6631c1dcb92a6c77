#include "runtime/tensor.h"

#include <algorithm>
#include <string>

fmt::format_context::iterator fmt::formatter<trireme::Shape>::format(const trireme::Shape& shape,
                                                                     format_context& context) const {
    std::string text = "[";
    for (const int64_t n : shape.dims()) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    text += ']';
    return std::copy(text.begin(), text.end(), context.out());
}
