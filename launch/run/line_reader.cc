#include "launch/run/line_reader.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <system_error>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {

/// Reads the bytes that have arrived. Returns false if none arrive within `patience_ms`, and at the end.
bool LineReader::fill(int patience_ms) {
    pollfd p = {fd_, POLLIN, 0};
    if (ended_ || ::poll(&p, 1, patience_ms) <= 0) return false;
    std::array<char, 1 << 16> block;
    const ssize_t n = ::read(fd_, block.data(), block.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return false;
    require(n >= 0, Exit::kIo, "{}: cannot be read: {}", name_, std::generic_category().message(errno));
    ended_ = n == 0;
    bytes_.append(block.data(), static_cast<size_t>(n));
    require(bytes_.size() <= kMostBytes || bytes_.find('\n', searched_) != std::string::npos, Exit::kData,
            "{}: line {} has more than {} bytes; want a JSON object a line", name_, number_ + 1, kMostBytes);
    return true;
}

/// Moves complete lines from bytes_, and at the end a last one without its end.
void LineReader::take(std::vector<Line>& lines) {
    size_t begin = 0;
    while (lines.size() < kMostLines) {
        size_t end = bytes_.find('\n', std::max(begin, searched_));
        if (end == std::string::npos) {
            searched_ = bytes_.size();
            if (!ended_ || begin >= bytes_.size()) break;
            end = bytes_.size();
        }
        std::string text = bytes_.substr(begin, end - begin);
        begin = std::min(end + 1, bytes_.size());
        searched_ = begin;
        ++number_;
        if (text.ends_with('\r')) text.pop_back();
        if (text.find_first_not_of(" \t\r") != std::string::npos) lines.push_back({std::move(text), number_});
    }
    bytes_.erase(0, begin);
    searched_ -= begin;
}

std::vector<LineReader::Line> LineReader::read(const std::function<bool()>& waiting) {
    constexpr int kPatience = 100;  // ms
    std::vector<Line> lines;
    take(lines);
    while (lines.empty() && !ended_ && waiting()) {
        if (fill(kPatience)) take(lines);
    }
    while (!lines.empty() && lines.size() < kMostLines && fill(0)) take(lines);
    return lines;
}

}  // namespace trireme
