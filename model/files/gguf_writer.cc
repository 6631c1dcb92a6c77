#include "model/files/gguf_writer.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {
namespace {

enum ValueType : uint32_t { kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9 };
constexpr uint64_t kAlignment = 32;  // the format's default

uint64_t aligned(uint64_t n) {
    return (n + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void GgufEntries::put_text(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    bytes_ += text;
}

void GgufEntries::begin(std::string_view key, uint32_t type) {
    ++count_;
    put_text(key);
    put(type);
}

void GgufEntries::string(std::string_view key, std::string_view value) {
    begin(key, kString);
    put_text(value);
}

void GgufEntries::boolean(std::string_view key, bool value) {
    begin(key, kBool);
    put(static_cast<uint8_t>(value));
}

void GgufEntries::u32(std::string_view key, uint32_t value) {
    begin(key, kU32);
    put(value);
}

void GgufEntries::f32(std::string_view key, float value) {
    begin(key, kF32);
    put(value);
}

void GgufEntries::strings(std::string_view key, std::span<const std::string> values) {
    begin(key, kArray);
    put(static_cast<uint32_t>(kString));
    put(static_cast<uint64_t>(values.size()));
    for (const std::string& value : values) put_text(value);
}

template <class T>
void GgufEntries::numbers(std::string_view key, uint32_t type, std::span<const T> values) {
    begin(key, kArray);
    put(type);
    put(static_cast<uint64_t>(values.size()));
    for (const T value : values) put(value);
}

void GgufEntries::i32s(std::string_view key, std::span<const int32_t> values) {
    numbers(key, kI32, values);
}

void GgufEntries::f32s(std::string_view key, std::span<const float> values) {
    numbers(key, kF32, values);
}

void GgufEntries::copy(std::string_view bytes) {
    ++count_;
    bytes_ += bytes;
}

void GgufEntries::add(const GgufEntries& more) {
    count_ += more.count_;
    bytes_ += more.bytes_;
}

uint64_t GgufOutput::bytes() const {
    const BlockLayout layout = layout_of(type);
    uint64_t elements = 1;
    for (const int64_t extent : shape) elements *= static_cast<uint64_t>(extent);
    return elements / static_cast<uint64_t>(layout.elements) * layout.bytes;
}

GgufWriter::GgufWriter(const std::filesystem::path& path, IfThere old, const GgufEntries& entries,
                       const std::vector<GgufOutput>& tensors)
    : file_(path, old) {
    std::string header = "GGUF";
    const auto put = [&](auto value) {
        char raw[sizeof value];
        std::memcpy(raw, &value, sizeof value);
        header.append(raw, sizeof value);
    };
    put(uint32_t{3});
    put(static_cast<uint64_t>(tensors.size()));
    put(entries.count());
    header += entries.bytes();
    uint64_t offset = 0;
    for (const GgufOutput& t : tensors) {
        put(static_cast<uint64_t>(t.name.size()));
        header += t.name;
        put(static_cast<uint32_t>(t.shape.size()));
        for (size_t i = t.shape.size(); i-- > 0;) put(static_cast<uint64_t>(t.shape[i]));
        put(gguf_number(t.type));
        put(offset);
        tensors_.push_back({offset, offset + t.bytes()});
        offset = aligned(offset + t.bytes());
    }
    header.resize(static_cast<size_t>(aligned(header.size())), '\0');
    for (Range& range : tensors_) {
        range.begin += header.size();
        range.end += header.size();
    }
    file_bytes_ = header.size() + offset;
    file_.reserve(file_bytes_);
    file_.write(0, std::as_bytes(std::span(header)));
}

void GgufWriter::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        check(at_ < tensors_.size(), "GGUF: {} bytes after the last tensor", bytes.size());
        const Range& range = tensors_[at_];
        const uint64_t left = range.end - range.begin - filled_;
        const std::span<const std::byte> some =
            bytes.first(static_cast<size_t>(std::min<uint64_t>(left, bytes.size())));
        file_.write(range.begin + filled_, some);
        filled_ += some.size();
        bytes = bytes.subspan(some.size());
        if (filled_ < range.end - range.begin) continue;
        // Zeros up to the next tensor: the disk may hold anything there.
        const std::vector<std::byte> zeros(static_cast<size_t>(aligned(range.end) - range.end));
        if (!zeros.empty()) file_.write(range.end, zeros);
        ++at_;
        filled_ = 0;
    }
}

void GgufWriter::publish() {
    check(at_ == tensors_.size(), "GGUF: {} of {} tensors are written", at_, tensors_.size());
    file_.publish();
}

}  // namespace trireme
