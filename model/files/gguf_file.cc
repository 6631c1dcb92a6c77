#include "model/files/gguf_file.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

#include "model/files/checked.h"
#include "model/files/gguf_reader.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

enum ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

constexpr uint64_t kShortArray = 4096;  // arrays up to this length are kept whatever their key: per-layer settings

uint64_t bytes_of(uint32_t type) {
    constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};  // a string has at least its length
    return kBytes[type];
}

GgufValue read_integer(GgufReader& r, uint32_t type) {
    switch (type) {
        case kU8:
            return int64_t{r.value<uint8_t>()};
        case kI8:
            return int64_t{r.value<int8_t>()};
        case kU16:
            return int64_t{r.value<uint16_t>()};
        case kI16:
            return int64_t{r.value<int16_t>()};
        case kU32:
            return int64_t{r.value<uint32_t>()};
        case kI32:
            return int64_t{r.value<int32_t>()};
        case kI64:
            return r.value<int64_t>();
        case kBool: {
            const auto b = r.value<uint8_t>();
            require(b <= 1, Exit::kData, "{}: a bool of {} at {}", r.name(), b, r.position() - 1);
            return b == 1;
        }
        default: {
            const auto u = r.value<uint64_t>();
            if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return u;
            return static_cast<int64_t>(u);
        }
    }
}

double read_float(GgufReader& r, uint32_t type) {
    return type == kF32 ? static_cast<double>(r.value<float>()) : r.value<double>();
}

void check_type(const GgufReader& r, uint32_t type, bool in_array) {
    require(type <= kF64 && !(in_array && type == kArray), Exit::kData, "{}: {} value type {} at {}", r.name(),
            in_array ? "an array of" : "an unknown", type, r.position() - 4);
}

GgufValue read_array(GgufReader& r, const std::string& key) {
    const auto type = r.value<uint32_t>();
    check_type(r, type, /*in_array=*/true);
    const auto n = r.value<uint64_t>();
    require(n <= limits::kGgufArray, Exit::kData, "{}: '{}' has {} elements, at most {} are read", r.name(), shown(key),
            n, limits::kGgufArray);
    r.require_room(n, bytes_of(type), "an array");

    const bool keep = n <= kShortArray || key.starts_with("tokenizer.");
    if (type == kString) {
        std::vector<std::string> strings;
        if (keep) strings.reserve(static_cast<size_t>(n));
        for (uint64_t i = 0; i < n; ++i) {
            std::string s = r.string(limits::kGgufString);
            if (keep) strings.push_back(std::move(s));
        }
        return keep ? GgufValue(std::move(strings)) : GgufValue();
    }
    if (!keep) {
        r.skip(n * bytes_of(type));
        return {};
    }
    if (type == kF32 || type == kF64) {
        std::vector<double> values(static_cast<size_t>(n));
        for (double& v : values) v = read_float(r, type);
        return values;
    }
    std::vector<int64_t> values(static_cast<size_t>(n));
    for (int64_t& v : values) {
        const GgufValue x = read_integer(r, type);
        const bool* flag = std::get_if<bool>(&x);
        require(!std::holds_alternative<uint64_t>(x), Exit::kData, "{}: '{}' holds numbers beyond 2^63", r.name(),
                shown(key));
        v = flag ? int64_t{*flag} : std::get<int64_t>(x);
    }
    return values;
}

GgufValue read_value(GgufReader& r, const std::string& key) {
    const auto type = r.value<uint32_t>();
    check_type(r, type, /*in_array=*/false);
    if (type == kString) return r.string(limits::kGgufString);
    if (type == kArray) return read_array(r, key);
    if (type == kF32 || type == kF64) return read_float(r, type);
    return read_integer(r, type);
}

/// The numbers of tensor types in files; types without a StoredType are not read, only named.
struct NumberedType {
    uint32_t id;
    std::string_view name;
    std::optional<StoredType> type = {};
};
constexpr NumberedType kNumberedTypes[] = {
    {0, "F32", StoredType::kF32},
    {1, "F16", StoredType::kF16},
    {2, "Q4_0", StoredType::kQ4_0},
    {3, "Q4_1", StoredType::kQ4_1},
    {6, "Q5_0", StoredType::kQ5_0},
    {7, "Q5_1", StoredType::kQ5_1},
    {8, "Q8_0", StoredType::kQ8_0},
    {10, "Q2_K", StoredType::kQ2_K},
    {11, "Q3_K", StoredType::kQ3_K},
    {12, "Q4_K", StoredType::kQ4_K},
    {13, "Q5_K", StoredType::kQ5_K},
    {14, "Q6_K", StoredType::kQ6_K},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL", StoredType::kIQ4_NL},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS", StoredType::kIQ4_XS},
    {29, "IQ1_M"},
    {30, "BF16", StoredType::kBF16},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4", StoredType::kMXFP4},
    {40, "NVFP4"},
    {41, "Q1_0"},
};

void set_type(GgufTensor& t, uint32_t id) {
    t.type_name = fmt::format("type {}", id);
    for (const NumberedType& f : kNumberedTypes) {
        if (f.id != id) continue;
        t.type = f.type;
        t.type_name = f.name;
    }
}

const NumberedType* numbered(StoredType type) {
    const auto* const it = std::ranges::find(kNumberedTypes, std::optional(type), &NumberedType::type);
    return it == std::end(kNumberedTypes) ? nullptr : it;
}

/// `offset` in the result still counts from the data section.
GgufTensor read_tensor(GgufReader& r) {
    GgufTensor t;
    t.name = r.string(limits::kNameBytes);
    const std::string where = fmt::format("{}: tensor '{}'", r.name(), shown(t.name));
    const auto rank = r.value<uint32_t>();
    require(rank >= 1 && rank <= limits::kGgufDims, Exit::kData, "{}: {} dimensions, 1 to {} are read", where, rank,
            limits::kGgufDims);
    Checked elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        t.dims.insert(t.dims.begin(), r.value<uint64_t>());
        require(t.dims.front() > 0, Exit::kData, "{}: an extent of 0", where);
        elements = elements * t.dims.front();
    }
    set_type(t, r.value<uint32_t>());
    t.offset = r.value<uint64_t>();
    t.bytes = 0;
    if (!t.type) return t;

    const BlockLayout layout = layout_of(*t.type);
    const auto block = static_cast<uint64_t>(layout.elements);
    const Checked bytes = elements * layout.bytes;  // an upper bound: not yet divided by the block's elements
    require(bytes.at_most(static_cast<uint64_t>(std::numeric_limits<int64_t>::max())), Exit::kData,
            "{}: {} are more than 2^63 bytes", where, dims_text(t.dims));
    require(t.dims.back() % block == 0, Exit::kData, "{}: rows of {} are not whole blocks of {} ({})", where,
            t.dims.back(), block, t.type_name);
    t.bytes = elements.value() / block * layout.bytes;
    return t;
}

uint64_t read_alignment(const GgufMetadata& metadata) {
    const int64_t a = metadata.integer("general.alignment").value_or(32);
    require(
        a > 0 && std::has_single_bit(static_cast<uint64_t>(a)) && static_cast<uint64_t>(a) <= limits::kGgufAlignment,
        Exit::kData, "{}: 'general.alignment' is {}; a power of two up to {} is supported", metadata.what(), a,
        limits::kGgufAlignment);
    return static_cast<uint64_t>(a);
}

/// Turns offsets within the data section into offsets within the file, and checks the bytes of every tensor.
void place(std::vector<GgufTensor>& tensors, uint64_t header_end, uint64_t alignment, const ByteSource& source) {
    const Checked data = Checked(header_end).round_up(alignment);
    for (GgufTensor& t : tensors) {
        const Checked end = data + t.offset + t.bytes;
        require(t.offset % alignment == 0, Exit::kData, "{}: tensor '{}' begins at {}, no multiple of {}",
                source.name(), shown(t.name), t.offset, alignment);
        require(end.at_most(source.size()), Exit::kData,
                "{}: tensor '{}': {} bytes at {} lie past the end, the file has {}; the download looks incomplete",
                source.name(), shown(t.name), t.bytes, t.offset, source.size());
        t.offset = (data + t.offset).value();
    }
    std::vector<const GgufTensor*> order;
    order.reserve(tensors.size());
    for (const GgufTensor& t : tensors) order.push_back(&t);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
        const GgufTensor &a = *order[i - 1], &b = *order[i];
        if (!a.type) continue;  // its size is not known; open_gguf_model() refuses such a file
        const Checked next = (Checked(a.offset - data.value()) + a.bytes).round_up(alignment) + data;
        require(next.equals(b.offset), Exit::kData, "{}: {} between tensors '{}' and '{}'", source.name(),
                b.offset < next.value() ? "an overlap" : "a hole", shown(a.name), shown(b.name));
    }
}

}  // namespace

bool in_gguf_files(StoredType type) {
    return numbered(type) != nullptr;
}

uint32_t gguf_number(StoredType type) {
    check(in_gguf_files(type), "GGUF has no type {}", name_of(type));
    return numbered(type)->id;
}

GgufFile read_gguf(const ByteSource& source) {
    GgufReader r(source);
    require(source.size() >= 24 && r.value<uint32_t>() == 0x46554747u, Exit::kData,
            "{}: does not begin with 'GGUF'; no GGUF file, or an empty download", source.name());
    const auto version = r.value<uint32_t>();
    require(version == 2 || version == 3, Exit::kData, "{}: GGUF version {}{}; versions 2 and 3 are read",
            source.name(), version, (version & 0xffffu) == 0 ? " (big-endian?)" : "");
    const auto n_tensors = r.value<uint64_t>(), n_keys = r.value<uint64_t>();
    require(n_tensors <= limits::kTensors && n_keys <= limits::kGgufKeys, Exit::kData,
            "{}: {} tensors and {} keys, at most {} and {} are read", source.name(), n_tensors, n_keys,
            limits::kTensors, limits::kGgufKeys);
    r.require_room(n_keys, 8 + 4 + 1, "the metadata");  // the length of a key, its type, a value

    std::map<std::string, GgufValue, std::less<>> values;
    std::vector<GgufFile::Entry> entries;
    for (uint64_t i = 0; i < n_keys; ++i) {
        const uint64_t begin = r.position();
        std::string key = r.string(limits::kNameBytes);
        require(!key.empty(), Exit::kData, "{}: an empty key at {}", source.name(), r.position());
        GgufValue value = read_value(r, key);
        const bool fresh = values.emplace(key, std::move(value)).second;
        require(fresh, Exit::kData, "{}: the key '{}' appears twice", source.name(), shown(key));
        entries.push_back({std::move(key), begin, r.position()});
    }
    GgufFile file{GgufMetadata(source.name(), std::move(values)), {}, std::move(entries), r.position()};

    r.require_room(n_tensors, 8 + 4 + 8 + 4 + 8, "the list of tensors");
    std::set<std::string_view> names;
    file.tensors.reserve(static_cast<size_t>(n_tensors));
    for (uint64_t i = 0; i < n_tensors; ++i) {
        file.tensors.push_back(read_tensor(r));
        require(names.insert(file.tensors.back().name).second, Exit::kData, "{}: tensor '{}' appears twice",
                source.name(), shown(file.tensors.back().name));
    }
    place(file.tensors, r.position(), read_alignment(file.metadata), source);
    return file;
}

std::string gguf_metadata_alone(const ByteSource& source) {
    std::string bytes(static_cast<size_t>(read_gguf(source).metadata_end), '\0');
    source.read(0, std::as_writable_bytes(std::span(bytes)));
    source.check_unchanged();
    constexpr size_t kTensorCount = 8;  // position: after the magic and the version
    std::fill_n(bytes.begin() + kTensorCount, sizeof(uint64_t), '\0');
    return bytes;
}

}  // namespace trireme
