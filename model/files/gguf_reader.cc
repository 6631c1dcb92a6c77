#include "model/files/gguf_reader.h"

#include <algorithm>

#include "model/files/checked.h"
#include "model/files/limits.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr uint64_t kReadWindow = uint64_t{1} << 16;

}  // namespace

GgufReader::GgufReader(const ByteSource& source)
    : source_(source), end_(std::min(source.size(), limits::kGgufHeader)) {}

std::string GgufReader::string(uint64_t most) {
    const auto n = value<uint64_t>();
    require(n <= most, Exit::kData, "{}: a string of {} bytes at {}, at most {} are read", name(), n, position_, most);
    require_room(n, 1, "a string");
    std::string s(static_cast<size_t>(n), '\0');
    take(std::as_writable_bytes(std::span(s)));
    return s;
}

void GgufReader::skip(uint64_t bytes) {
    require_room(bytes, 1, "a value");
    position_ += bytes;
}

void GgufReader::require_room(uint64_t count, uint64_t bytes, const char* what) const {
    require((Checked(count) * bytes).at_most(left()), Exit::kData,
            "{}: {} at {} claims {} items of {} bytes, {} bytes of header are left; it is cut short or damaged", name(),
            what, position_, count, bytes, left());
}

void GgufReader::take(std::span<std::byte> out) {
    require_room(out.size(), 1, "a value");
    while (!out.empty()) {
        if (position_ < window_at_ || position_ - window_at_ >= window_.size()) {
            window_at_ = position_;
            window_.resize(static_cast<size_t>(std::min(kReadWindow, left())));
            source_.read(window_at_, window_);
        }
        const auto at = static_cast<size_t>(position_ - window_at_);
        const size_t n = std::min(out.size(), window_.size() - at);
        std::memcpy(out.data(), window_.data() + at, n);
        out = out.subspan(n);
        position_ += n;
    }
}

}  // namespace trireme
