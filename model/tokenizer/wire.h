#pragma once
/// WireReader, WireWriter: Protocol buffers' wire format, in which a tokenizer.model is written. The reader does not
/// trust its input.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Reads the fields of one message: for (WireReader r(bytes, what); r.next();) if (r.field() == 3) use(r.varint());
/// Errors of all members: Exit::kData naming `what`.
class WireReader {
  public:
    /// `message` and `what` must outlive the reader.
    WireReader(std::string_view message, std::string_view what) : in_(message), what_(what) {}

    /// Reads the next field, whatever its number and type. Returns false at the end of the message.
    bool next();
    /// Returns the number of the field that next() read.
    uint32_t field() const { return field_; }

    /// Return the value of that field. Error: it has another wire type. bytes() is a view of the message.
    uint64_t varint() const;
    uint32_t fixed32() const;
    std::string_view bytes() const;

  private:
    enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

    uint64_t read_varint();
    std::string_view take(uint64_t size);
    void expect(Type type, const char* wanted) const;

    std::string_view in_, what_;
    size_t at_ = 0;
    uint32_t field_ = 0;
    Type type_ = Type::kVarint;
    uint64_t number_ = 0;     // value of a varint
    std::string_view bytes_;  // value of the other types
};

/// Appends fields to a message.
class WireWriter {
  public:
    void varint(uint32_t field, uint64_t value);
    void fixed32(uint32_t field, uint32_t value);
    void bytes(uint32_t field, std::string_view value);
    const std::string& text() const { return out_; }

  private:
    void put_varint(uint64_t value);
    std::string out_;
};

}  // namespace trireme
