#include "model/tokenizer/wire.h"

#include "runtime/error.h"

namespace trireme {

bool WireReader::next() {
    if (at_ == in_.size()) return false;
    const uint64_t tag = read_varint();
    const uint64_t field = tag >> 3;
    require(field >= 1 && field < (uint64_t{1} << 29), Exit::kData, "{}: field number {} near byte {} of a message",
            what_, field, at_);
    field_ = static_cast<uint32_t>(field);
    type_ = static_cast<Type>(tag & 7);
    switch (type_) {
        case Type::kVarint:
            number_ = read_varint();
            break;
        case Type::kFixed64:
            bytes_ = take(8);
            break;
        case Type::kBytes:
            bytes_ = take(read_varint());
            break;
        case Type::kFixed32:
            bytes_ = take(4);
            break;
        default:
            fail(Exit::kData, "{}: wire type {} near byte {} of a message is not known", what_, tag & 7, at_);
    }
    return true;
}

uint64_t WireReader::read_varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        require(at_ < in_.size(), Exit::kData, "{}: a message of {} bytes is cut off", what_, in_.size());
        const auto byte = static_cast<uint8_t>(in_[at_++]);
        value |= uint64_t{byte & 0x7Fu} << shift;
        if (byte < 0x80) return value;
    }
    fail(Exit::kData, "{}: a number of more than 10 bytes near byte {} of a message", what_, at_);
}

std::string_view WireReader::take(uint64_t size) {
    require(size <= in_.size() - at_, Exit::kData, "{}: a field of {} bytes at byte {} of a message of {}", what_, size,
            at_, in_.size());
    const std::string_view taken = in_.substr(at_, size);
    at_ += size;
    return taken;
}

void WireReader::expect(Type type, const char* wanted) const {
    require(type_ == type, Exit::kData, "{}: field {} has wire type {}, expected {}", what_, field_,
            static_cast<int>(type_), wanted);
}

uint64_t WireReader::varint() const {
    expect(Type::kVarint, "a number");
    return number_;
}

uint32_t WireReader::fixed32() const {
    expect(Type::kFixed32, "32 bits");
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes_[i])} << (8 * i);
    return value;
}

std::string_view WireReader::bytes() const {
    expect(Type::kBytes, "bytes");
    return bytes_;
}

void WireWriter::put_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(static_cast<uint8_t>(value | 0x80));
    out_ += static_cast<char>(static_cast<uint8_t>(value));
}

void WireWriter::varint(uint32_t field, uint64_t value) {
    put_varint(uint64_t{field} << 3);
    put_varint(value);
}

void WireWriter::fixed32(uint32_t field, uint32_t value) {
    put_varint(uint64_t{field} << 3 | 5);
    for (size_t i = 0; i < 4; ++i) out_ += static_cast<char>(static_cast<uint8_t>(value >> (8 * i)));
}

void WireWriter::bytes(uint32_t field, std::string_view value) {
    put_varint(uint64_t{field} << 3 | 2);
    put_varint(value.size());
    out_ += value;
}

}  // namespace trireme
