#include "model/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "model/files/checked.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr uint64_t kLengthBytes = 8;

/// Returns the number of bits of an element for the types of safetensors 0.8, 0 for others.
uint64_t element_bits(std::string_view dtype) {
    constexpr std::pair<std::string_view, uint64_t> kTypes[] = {
        {"F64", 64},    {"F32", 32},    {"F16", 16},    {"BF16", 16},   {"I64", 64},        {"I32", 32},
        {"I16", 16},    {"I8", 8},      {"U64", 64},    {"U32", 32},    {"U16", 16},        {"U8", 8},
        {"BOOL", 8},    {"C64", 64},    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8},
        {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
    };
    for (const auto& [name, bits] : kTypes) {
        if (name == dtype) return bits;
    }
    return 0;
}

uint64_t header_bytes(const ByteSource& source) {
    std::array<std::byte, kLengthBytes> raw;
    source.read(0, raw);
    uint64_t n = 0;
    for (size_t i = raw.size(); i-- > 0;) n = n << 8 | static_cast<uint64_t>(raw[i]);
    require((Checked(n) + kLengthBytes).at_most(source.size()), Exit::kData,
            "{}: the header claims {} bytes, the file has {}; it is cut short or no safetensors file", source.name(), n,
            source.size());
    require(n <= limits::kSafetensorsHeader, Exit::kData, "{}: the header has {} bytes, at most {} are read",
            source.name(), n, limits::kSafetensorsHeader);
    return n;
}

std::vector<uint64_t> unsigned_list(const Json& v, size_t most, std::string_view key, std::string_view where) {
    require(v.is_array() && v.size() <= most, Exit::kData, "{}: '{}' is not a list of at most {} numbers", where, key,
            most);
    std::vector<uint64_t> list;
    for (const Json& x : v) {
        require(x.is_number_unsigned(), Exit::kData, "{}: '{}' holds something else than whole numbers from 0", where,
                key);
        list.push_back(x.get<uint64_t>());
    }
    return list;
}

/// `data`: where the tensors' bytes begin; `size`: their number.
SafetensorsEntry read_entry(const Json& v, uint64_t data, uint64_t size, const std::string& where) {
    require(v.is_object() && v.size() == 3 && v.contains("dtype") && v.contains("shape") && v.contains("data_offsets"),
            Exit::kData, "{}: expected exactly dtype, shape and data_offsets", where);
    SafetensorsEntry e;
    require(v["dtype"].is_string(), Exit::kData, "{}: 'dtype' is no string", where);
    e.dtype = v["dtype"].get<std::string>();
    const uint64_t bits = element_bits(e.dtype);
    e.dims = unsigned_list(v["shape"], limits::kSafetensorsDims, "shape", where);
    const std::vector<uint64_t> range = unsigned_list(v["data_offsets"], 2, "data_offsets", where);
    require(range.size() == 2 && range[0] <= range[1], Exit::kData, "{}: 'data_offsets' is not a range", where);
    require(range[1] <= size, Exit::kData,
            "{}: bytes [{}, {}) lie past the end, {} bytes of tensors are there; the download looks incomplete", where,
            range[0], range[1], size);

    // A tensor that is not read may have a newer type, and so an unknown size.
    Checked all = bits;
    for (const uint64_t d : e.dims) all = all * d;
    require(bits == 0 || all.equals((range[1] - range[0]) * 8), Exit::kData,
            "{}: {} of {} does not fill bytes [{}, {})", where, dims_text(e.dims), e.dtype, range[0], range[1]);
    e.offset = data + range[0];
    e.bytes = range[1] - range[0];
    return e;
}

void require_no_holes(const SafetensorsHeader& header, uint64_t begin, const ByteSource& source) {
    std::vector<const SafetensorsHeader::value_type*> order;
    for (const auto& entry : header) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
        return std::pair(a->second.offset, a->second.bytes) < std::pair(b->second.offset, b->second.bytes);
    });
    uint64_t at = begin;
    std::string_view before = "the header";
    for (const auto* entry : order) {
        require(entry->second.offset == at, Exit::kData, "{}: {} between {} and tensor '{}'", source.name(),
                entry->second.offset < at ? "an overlap" : "a hole", shown(before), shown(entry->first));
        at += entry->second.bytes;
        before = entry->first;
    }
    require(at == source.size(), Exit::kData, "{}: {} bytes after the last tensor", source.name(), source.size() - at);
}

}  // namespace

SafetensorsHeader read_safetensors_header(const ByteSource& source) {
    const uint64_t n = header_bytes(source);
    std::string text(static_cast<size_t>(n), '\0');
    source.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
    require(text.starts_with('{'), Exit::kData, "{}: the header does not begin with '{{'; no safetensors file",
            source.name());
    // 65,536 tensors of four dimensions are 11 values each.
    const Json json =
        parse_json(text, source.name() + " (header)", {.depth = 8, .bytes = text.size(), .values = size_t{1} << 20});
    require(json.size() <= limits::kTensors, Exit::kData, "{}: {} tensors, at most {} are read", source.name(),
            json.size(), limits::kTensors);

    const uint64_t data = kLengthBytes + n;
    SafetensorsHeader header;
    for (const auto& [name, value] : json.items()) {
        if (name == "__metadata__") continue;
        require(name.size() <= limits::kNameBytes, Exit::kData, "{}: a tensor name of {} bytes, at most {} are read",
                source.name(), name.size(), limits::kNameBytes);
        const std::string where = fmt::format("{}: tensor '{}'", source.name(), shown(name));
        header.emplace(name, read_entry(value, data, source.size() - data, where));
    }
    require_no_holes(header, data, source);
    return header;
}

}  // namespace trireme
