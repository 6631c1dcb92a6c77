#include "decode/stop_text.h"

#include <algorithm>
#include <utility>

namespace trireme {

std::string StopText::push(std::string_view text) {
    if (stopped_) return "";
    held_ += text;
    size_t cut = std::string::npos;
    for (const std::string& stop : stops_) cut = std::min(cut, held_.find(stop));
    if (cut != std::string::npos) {
        stopped_ = true;
        std::string shown = held_.substr(0, cut);
        held_.clear();
        return shown;
    }
    // Hold back the longest tail that is the beginning of a stop string.
    size_t keep = 0;
    for (const std::string& stop : stops_) {
        for (size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n) {
            if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) keep = n;
        }
    }
    std::string shown = held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return shown;
}

std::string StopText::flush() {
    return std::exchange(held_, {});
}

}  // namespace trireme
