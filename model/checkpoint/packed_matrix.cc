#include "model/checkpoint/packed_matrix.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <vector>

#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 32;
constexpr size_t kHead = 4;  // bytes of a block before the codes

/// Numbers of a tensor of scales, as f32.
std::vector<float> widened(const PackedPart& part) {
    std::vector<std::byte> raw(part.entry.bytes);
    part.source->read(part.entry.offset, raw);
    const bool wide = part.entry.dtype == "F32";
    std::vector<float> values(raw.size() / (wide ? 4 : 2));
    for (size_t i = 0; i < values.size(); ++i) {
        if (wide) {
            std::memcpy(&values[i], &raw[4 * i], 4);
            continue;
        }
        uint16_t bits = 0;
        std::memcpy(&bits, &raw[2 * i], 2);
        values[i] = part.entry.dtype == "F16" ? static_cast<float>(f16::from_bits(bits))
                                              : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
    }
    return values;
}

std::vector<uint32_t> words(const std::optional<PackedPart>& part) {
    if (!part) return {};
    std::vector<uint32_t> values(part->entry.bytes / 4);
    part->source->read(part->entry.offset, std::as_writable_bytes(std::span(values)));
    return values;
}

/// The parts of a matrix, in memory.
struct Parts {
    std::vector<uint32_t> codes, zeros;  // int4
    std::vector<std::byte> bytes;        // FP8
    std::vector<float> scales;
};

/// The last two matrices that were read: loading reads one after the other, with several threads.
class Recent {
  public:
    std::shared_ptr<const Parts> get(const void* owner, const std::function<Parts()>& read) {
        const std::lock_guard lock(mutex_);
        for (size_t i = 0; i < 2; ++i) {
            if (kept_[i].first == owner) return kept_[i].second;
        }
        auto fresh = std::make_shared<const Parts>(read());
        kept_[next_] = {owner, fresh};
        next_ = 1 - next_;
        return fresh;
    }
    void forget(const void* owner) {
        const std::lock_guard lock(mutex_);
        for (auto& kept : kept_) {
            if (kept.first == owner) kept = {};
        }
    }

  private:
    std::mutex mutex_;
    std::pair<const void*, std::shared_ptr<const Parts>> kept_[2];
    size_t next_ = 0;
};

Recent& recent() {
    static Recent all;
    return all;
}

int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

int nibble(uint32_t word, int64_t i) {
    return static_cast<int>(word >> (4 * i) & 15u);
}

class PackedMatrix final : public ByteSource {
  public:
    struct Found {
        PackedPart codes, scales;
        std::optional<PackedPart> zeros;
    };

    PackedMatrix(const Quantisation& q, Shape shape, Found found, int64_t scale_rows, int64_t scale_cols)
        : ByteSource(found.codes.source->name(),
                     static_cast<uint64_t>(shape[0] * (shape[1] / kBlock)) * layout_of(packed_type(q.as)).bytes),
          q_(q),
          rows_(shape[0]),
          cols_(shape[1]),
          scale_rows_(scale_rows),
          scale_cols_(scale_cols),
          found_(std::move(found)) {}
    ~PackedMatrix() override { recent().forget(this); }
    PackedMatrix(const PackedMatrix&) = delete;
    PackedMatrix& operator=(const PackedMatrix&) = delete;

    void check_unchanged() const override {
        found_.codes.source->check_unchanged();
        found_.scales.source->check_unchanged();
        if (found_.zeros) found_.zeros->source->check_unchanged();
    }

  private:
    void do_read(uint64_t offset, std::span<std::byte> out) const override {
        const size_t bytes = layout_of(packed_type(q_.as)).bytes;
        check(offset % bytes == 0 && out.size() % bytes == 0, "packed matrix: bytes [{}, +{})", offset, out.size());
        const std::shared_ptr<const Parts> parts = recent().get(this, [this] { return read_parts(); });
        const auto row_blocks = static_cast<uint64_t>(cols_ / kBlock);
        const uint64_t first = offset / bytes, end = first + out.size() / bytes;
        // Transposed words hold codes of one column or row each, so successive rows are read from the same cache lines.
        for (uint64_t b = 0; b < row_blocks; ++b) {
            const uint64_t begin = (first + row_blocks - 1 - b) / row_blocks;
            for (uint64_t row = begin; row * row_blocks + b < end; ++row) {
                write_block(*parts, static_cast<int64_t>(row), static_cast<int64_t>(b) * kBlock,
                            &out[(row * row_blocks + b - first) * bytes]);
            }
        }
    }

    Parts read_parts() const {
        Parts parts;
        if (q_.as == PackedAs::kFP8) {
            parts.bytes.resize(found_.codes.entry.bytes);
            found_.codes.source->read(found_.codes.entry.offset, parts.bytes);
        } else {
            parts.codes = words(found_.codes);
            parts.zeros = words(found_.zeros);
        }
        parts.scales = widened(found_.scales);
        return parts;
    }

    void write_block(const Parts& p, int64_t row, int64_t col, std::byte* out) const {
        if (q_.as == PackedAs::kFP8) {
            const float scale = p.scales[index(row / scale_rows_ * div_up(cols_, scale_cols_) + col / scale_cols_)];
            std::memcpy(out, &scale, kHead);
            std::memcpy(out + kHead, &p.bytes[index(row * cols_ + col)], kBlock);
            return;
        }
        const int64_t group = col / scale_cols_, groups = cols_ / scale_cols_;
        const bool transposed = q_.as != PackedAs::kCompressed;
        const float scale = p.scales[index(transposed ? group * rows_ + row : row * groups + group)];
        const uint32_t head = std::bit_cast<uint32_t>(scale) | static_cast<uint32_t>(zero_of(p, row, group, groups));
        std::memcpy(out, &head, kHead);
        for (int64_t j = 0; j < kBlock / 2; ++j) {
            const int low = code(p, row, col + j), high = code(p, row, col + j + kBlock / 2);
            out[kHead + index(j)] = static_cast<std::byte>(low | high << 4);
        }
    }
    int code(const Parts& p, int64_t row, int64_t col) const {
        switch (q_.as) {
            case PackedAs::kGptq:
                return nibble(p.codes[index(col / 8 * rows_ + row)], col % 8);
            case PackedAs::kAwq:
                return nibble(p.codes[index(col * (rows_ / 8) + row / 8)], awq_place(row));
            default:
                return nibble(p.codes[index(row * (cols_ / 8) + col / 8)], col % 8);
        }
    }
    int zero_of(const Parts& p, int64_t row, int64_t group, int64_t groups) const {
        switch (q_.as) {
            case PackedAs::kGptq:
                return nibble(p.zeros[index(group * (rows_ / 8) + row / 8)], row % 8) + q_.zero_shift;
            case PackedAs::kAwq:
                return nibble(p.zeros[index(group * (rows_ / 8) + row / 8)], awq_place(row));
            default:
                return p.zeros.empty() ? 8 : nibble(p.zeros[index(row / 8 * groups + group)], row % 8);
        }
    }
    static int64_t awq_place(int64_t row) {
        constexpr int64_t places[] = {0, 4, 1, 5, 2, 6, 3, 7};  // nibble i is row 0 2 4 6 1 3 5 7 of eight
        return places[row % 8];
    }

    Quantisation q_;
    int64_t rows_, cols_;
    int64_t scale_rows_, scale_cols_;  // of the weights that share a scale
    Found found_;
};

std::string text_of(const std::vector<uint64_t>& dims) {
    return dims.empty() ? "[]" : dims_text(dims);
}

/// Checks and collects the parts of one module.
class Collector {
  public:
    Collector(const std::string& module, const FindPart& find, TensorProblems& problems)
        : module_(module), find_(find), problems_(problems) {}

    bool good() const { return good_; }
    std::optional<PackedPart> optional(std::string_view part) const { return find_(part); }
    /// A part of one of these types, with these extents.
    PackedPart part(std::string_view name, std::initializer_list<std::string_view> types,
                    const std::vector<uint64_t>& dims) {
        const std::optional<PackedPart> found = find_(name);
        if (!found) {
            add(name, text_of(dims), "missing");
            return {};
        }
        const bool typed = std::ranges::find(types, found->entry.dtype) != types.end();
        if (!typed || found->entry.dims != dims) {
            add(name, fmt::format("{} of type {}", text_of(dims), fmt::join(types, " or ")),
                fmt::format("{} {}", text_of(found->entry.dims), found->entry.dtype));
        }
        return *found;
    }
    void add(std::string_view part, const std::string& expected, const std::string& found) {
        problems_.add(fmt::format("{}.{}", module_, part), expected, found);
        good_ = false;
    }

  private:
    const std::string& module_;
    const FindPart& find_;
    TensorProblems& problems_;
    bool good_ = true;
};

/// Scales of FP8: one number, one for each row, or one for each block. Sets the weights that share one.
PackedPart fp8_scales(const Quantisation& q, Collector& parts, const Shape& shape, int64_t& scale_rows,
                      int64_t& scale_cols) {
    const auto name = parts.optional("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
    const std::optional<PackedPart> found = parts.optional(name);
    std::vector<uint64_t> dims = {1};
    if (found) dims = found->entry.dims;
    const uint64_t all = std::accumulate(dims.begin(), dims.end(), uint64_t{1}, std::multiplies<>());
    scale_cols = shape[1];
    if (q.block_rows > 0) {
        scale_rows = q.block_rows;
        scale_cols = q.block_cols;
        dims = {index(div_up(shape[0], scale_rows)), index(div_up(shape[1], scale_cols))};
    } else if (all == 1 && dims.size() <= 2) {
        scale_rows = shape[0];
    } else {
        scale_rows = 1;
        if (dims != std::vector<uint64_t>{index(shape[0])}) dims = {index(shape[0]), 1};
    }
    return parts.part(name, {"F32", "BF16", "F16"}, dims);
}

/// Refuses columns whose scales are in another order than by columns / group.
void refuse_order(const PackedPart& order, const std::string& module, int64_t group) {
    const std::vector<uint32_t> groups = words(order);
    for (size_t i = 0; i < groups.size(); ++i) {
        require(groups[i] == i / static_cast<size_t>(group), Exit::kData,
                "{}: '{}.g_idx' has group {} for column {}, not {}: act-order (desc_act) is not supported; take a "
                "model without it, or a GGUF",
                order.source->name(), shown(module), groups[i], i, i / static_cast<size_t>(group));
    }
}

}  // namespace

StoredType packed_type(PackedAs as) {
    return as == PackedAs::kFP8 ? StoredType::kFP8 : StoredType::kInt4;
}

std::vector<std::string_view> packed_parts(PackedAs as) {
    switch (as) {
        case PackedAs::kGptq:
            return {"qweight", "qzeros", "scales", "g_idx"};
        case PackedAs::kAwq:
            return {"qweight", "qzeros", "scales"};
        case PackedAs::kCompressed:
            return {"weight_packed", "weight_scale", "weight_zero_point", "weight_shape"};
        case PackedAs::kFP8:
            return {"weight", "weight_scale", "weight_scale_inv", "input_scale", "output_scale", "activation_scale"};
        case PackedAs::kNone:
            break;
    }
    return {};
}

std::unique_ptr<ByteSource> packed_matrix(const Quantisation& q, const std::string& module, Shape shape,
                                          const FindPart& find, TensorProblems& problems) {
    const auto rows = static_cast<uint64_t>(shape[0]), cols = static_cast<uint64_t>(shape[1]);
    Collector parts(module, find, problems);
    if (shape[1] % kBlock != 0 || (q.as != PackedAs::kFP8 && shape[0] % 8 != 0)) {
        parts.add("weight",
                  q.as == PackedAs::kFP8 ? "a multiple of 32 columns" : "a multiple of 8 rows and of 32 columns",
                  fmt::format("{}", shape));
        return nullptr;
    }
    int64_t scale_rows = 1, scale_cols = q.group == 0 ? shape[1] : q.group;
    if (q.as != PackedAs::kFP8 && shape[1] % scale_cols != 0) {
        parts.add("weight", fmt::format("columns in groups of {}", scale_cols), fmt::format("{}", shape));
        return nullptr;
    }
    const uint64_t groups = cols / static_cast<uint64_t>(scale_cols);
    PackedMatrix::Found found{};
    switch (q.as) {
        case PackedAs::kGptq:
        case PackedAs::kAwq: {
            const bool gptq = q.as == PackedAs::kGptq;
            found.codes =
                parts.part("qweight", {"I32"}, gptq ? std::vector{cols / 8, rows} : std::vector{cols, rows / 8});
            found.zeros = parts.part("qzeros", {"I32"}, {groups, rows / 8});
            found.scales = parts.part("scales", {"F16", "BF16"}, {groups, rows});
            if (gptq && (q.reordered || find("g_idx"))) {
                const PackedPart order = parts.part("g_idx", {"I32"}, {cols});
                if (parts.good()) refuse_order(order, module, scale_cols);
            }
            break;
        }
        case PackedAs::kCompressed:
            found.codes = parts.part("weight_packed", {"I32"}, {rows, cols / 8});
            found.scales = parts.part("weight_scale", {"F16", "BF16"}, {rows, groups});
            if (q.zero_points) found.zeros = parts.part("weight_zero_point", {"I32"}, {rows / 8, groups});
            break;
        default:
            found.codes = parts.part("weight", {"F8_E4M3"}, {rows, cols});
            found.scales = fp8_scales(q, parts, shape, scale_rows, scale_cols);
            break;
    }
    if (!parts.good()) return nullptr;
    return std::make_unique<PackedMatrix>(q, shape, std::move(found), scale_rows, scale_cols);
}

}  // namespace trireme
