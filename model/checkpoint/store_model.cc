#include "model/checkpoint/store_model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <system_error>

#include "model/checkpoint/expected_tensors.h"
#include "model/files/dequantise.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/files/store/reader.h"
#include "model/files/tensor_values.h"
#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::optional<StoredType> plain_type(DType type) {
    if (type == DType::kF32) return StoredType::kF32;
    if (type == DType::kF16) return StoredType::kF16;
    if (type == DType::kBF16) return StoredType::kBF16;
    return {};
}

class StoreModel final : public WeightSource {
  public:
    explicit StoreModel(std::unique_ptr<ByteSource> source) : store_(std::move(source), kStoredModel) {
        read_config();
        read_block_types();
        std::map<std::string_view, const StoreSet*> found;
        for (const StoreSet& set : store_.sets()) {
            if (!set.name.starts_with("files/") && set.name != kStoreAbout && set.name != kRopeFactors) {
                found.emplace(set.name, &set);
            }
        }
        TensorProblems problems;
        NaturalType natural;
        for (const ExpectedTensor& want : expected_tensors(config_)) take(want, found, problems, natural);
        for (const auto& [name, set] : found) problems.add(name, "nothing", "a tensor a Llama of this config has not");
        problems.raise(store_.name());
        natural_dtype_ = natural.get();
    }

  private:
    /// A data set with columns [begin, begin + n) of a matrix. A vector is a matrix of one column.
    struct Columns {
        const StoreSet* set;
        int64_t begin, n;
    };

    void read_config() {
        const auto json = [&](const char* file) -> std::optional<Json> {
            const std::optional<std::string> text = text_in(store_, file, limits::kConfigBytes);
            if (!text) return {};
            return parse_json(*text, store_.name() + ": " + file, {.by_python = true});
        };
        const std::optional<Json> config = json("config.json");
        require(config.has_value(), Exit::kData, "{}: holds no config.json", store_.name());
        config_ = parse_config(*config, store_.name() + ": config.json");
        if (const auto generation = json("generation_config.json")) {
            apply_generation_config(config_, *generation, store_.name() + ": generation_config.json");
        }
        if (store_.find(kRopeFactors) == nullptr) return;
        const StoreSet& factors = store_.set(kRopeFactors, DType::kF32, 1);
        const int64_t pairs = config_.rope.dim(config_.head_dim) / 2;
        require(factors.rows() == pairs, Exit::kData, "{}: '{}' has {} numbers, {} were expected", store_.name(),
                kRopeFactors, factors.rows(), pairs);
        config_.rope.factors = store_.all<float>(factors);
        validate(config_, store_.name());
    }

    /// Reads the types of the matrices in blocks.
    void read_block_types() {
        if (!store_.about().is_object() || !store_.about().contains(kStoredBlocks)) return;  // an older file
        const Json& types = store_.about()[kStoredBlocks];
        require(types.is_object(), Exit::kData, "{}: '{}' is {}, expected the types of tensors by name", store_.name(),
                kStoredBlocks, shown(types.dump()));
        for (const auto& [name, type] : types.items()) {
            const auto known = type.is_string() ? stored_type_named(type.get<std::string>()) : std::nullopt;
            require(known && is_quantised(*known), Exit::kData, "{}: tensor '{}' has blocks of type {}; not known here",
                    store_.name(), shown(name), shown(type.dump()));
            block_types_.emplace(name, *known);
        }
    }

    /// The type of a tensor's data sets; nothing for a type that is no weights'.
    std::optional<StoredType> type_of(const std::string& tensor, const StoreSet& set) const {
        const auto blocks = block_types_.find(tensor);
        if (blocks == block_types_.end()) return plain_type(set.type);
        return set.type == DType::kU8 && set.shape.size() == 2 ? std::optional(blocks->second) : std::nullopt;
    }
    /// The extents of a set in elements. Bytes that are no whole blocks count as no elements.
    static std::vector<uint64_t> dims_of(const StoreSet& set, std::optional<StoredType> type) {
        std::vector<uint64_t> dims(set.shape.begin(), set.shape.end());
        if (dims.size() == 2 && type && is_quantised(*type)) {
            const BlockLayout layout = layout_of(*type);
            dims[1] = dims[1] % layout.bytes == 0 ? dims[1] / layout.bytes * static_cast<uint64_t>(layout.elements) : 0;
        }
        return dims;
    }

    void take(const ExpectedTensor& want, std::map<std::string_view, const StoreSet*>& found, TensorProblems& problems,
              NaturalType& natural) {
        std::vector<Columns> columns;
        std::optional<StoredType> type;
        if (const auto whole = found.find(want.name); whole != found.end()) {
            const StoreSet& set = *whole->second;
            found.erase(whole);
            type = type_of(want.name, set);
            if (!problems.compare(want, type.has_value(), name_of(set.type), dims_of(set, type))) return;
            columns.push_back({&set, 0, want.shape.rank() == 1 ? 1 : want.shape[1]});
        } else if (!take_columns(want, found, columns, type, problems)) {
            return;
        }
        stored_.push_back(std::move(columns));
        add_tensor({want.name, *type, want.shape});
        natural.add(*type, want.shape.elements());
    }

    bool take_columns(const ExpectedTensor& want, std::map<std::string_view, const StoreSet*>& found,
                      std::vector<Columns>& columns, std::optional<StoredType>& type, TensorProblems& problems) {
        int64_t end = 0;
        bool fits = true;
        for (auto part = found.find(want.name + "/0"); part != found.end();
             part = found.find(fmt::format("{}/{}", want.name, columns.size()))) {
            const StoreSet& set = *part->second;
            found.erase(part);
            if (columns.empty()) type = type_of(want.name, set);
            const std::vector<uint64_t> dims = dims_of(set, type);
            const auto cols = static_cast<int64_t>(dims.back());
            columns.push_back({&set, end, cols});
            fits = fits && want.shape.rank() == 2 && dims.size() == 2 && set.shape[0] == want.shape[0] && cols > 0 &&
                   cols <= want.shape[1] - end && type.has_value() && set.type == columns.front().set->type;
            if (fits) end += cols;
        }
        if (columns.empty()) {
            problems.add(want.name, fmt::format("{}", want.shape), "missing");
        } else if (!fits || end != want.shape[1]) {
            problems.add(want.name, fmt::format("{}", want.shape),
                         fmt::format("{} blocks of columns that do not make it up", columns.size()));
        }
        return !columns.empty() && fits && end == want.shape[1];
    }

    int64_t do_rows_together(size_t tensor) const override { return stored_[tensor].front().set->block_rows(); }

    void do_read(size_t tensor, int64_t row0, int64_t col0, const HostTensor& out) const override {
        const Shape& shape = tensors_[tensor].shape;
        const bool vector = shape.rank() == 1;
        const int64_t rows = out.rows(), cols = vector ? 1 : out.cols();
        check(row0 >= 0 && col0 >= 0 && row0 + rows <= shape[0] && col0 + cols <= (vector ? 1 : shape[1]),
              "tensor '{}' {}: rows [{}, {}) and columns [{}, {}) do not exist", tensors_[tensor].name, shape, row0,
              row0 + rows, col0, col0 + cols);
        check(!vector || out.contiguous(), "tensor '{}': a vector is read into contiguous memory",
              tensors_[tensor].name);
        if (rows == 0 || cols == 0) return;
        for (const Columns& c : stored_[tensor]) {
            const int64_t begin = std::max(col0, c.begin), end = std::min(col0 + cols, c.begin + c.n);
            if (begin >= end) continue;
            const auto at = static_cast<size_t>(begin - col0) * size_of(out.dtype());
            const size_t stride = static_cast<size_t>(vector ? 1 : out.stride()) * size_of(out.dtype());
            read_rows(tensor, c, row0, rows, {.begin = begin, .n = end - begin}, out.dtype(),
                      static_cast<std::byte*>(out.data()) + at, stride);
        }
    }

    void do_read_blocks(size_t tensor, int64_t row0, int64_t rows, int64_t col0,
                        std::span<std::byte> out) const override {
        const TensorInfo& info = tensors_[tensor];
        const BlockLayout layout = layout_of(info.type);
        const size_t row_bytes = rows == 0 ? 0 : out.size() / static_cast<size_t>(rows);
        const int64_t first = col0 / layout.elements * layout.elements;
        const int64_t cols = static_cast<int64_t>(row_bytes / layout.bytes) * layout.elements;
        check(
            row0 >= 0 && row0 + rows <= info.shape[0] && first + cols <= info.shape[1] && row_bytes % layout.bytes == 0,
            "tensor '{}' {}: {} bytes for blocks of rows [{}, {}) from column {}", info.name, info.shape, out.size(),
            row0, row0 + rows, col0);
        const auto bytes_of = [&](int64_t elements) {
            return static_cast<size_t>(elements / layout.elements) * layout.bytes;
        };
        std::vector<std::byte> some;
        for (const Columns& c : stored_[tensor]) {
            const int64_t begin = std::max(first, c.begin), end = std::min(first + cols, c.begin + c.n);
            if (begin >= end) continue;
            if (begin == first && end == first + cols && c.n == cols) {
                store_.read(*c.set, row0, rows, out);
                break;
            }
            const size_t set_bytes = bytes_of(c.n);
            some.resize(static_cast<size_t>(rows) * set_bytes);
            store_.read(*c.set, row0, rows, some);
            for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
                std::memcpy(out.data() + r * row_bytes + bytes_of(begin - first),
                            some.data() + r * set_bytes + bytes_of(begin - c.begin), bytes_of(end - begin));
            }
        }
        for (int64_t r = 0; r < rows; ++r) {
            check_finite_blocks({store_.name(), info.name}, info.type, out.data() + static_cast<size_t>(r) * row_bytes,
                                cols, (row0 + r) * info.shape[1] + first);
        }
    }

    struct Range {
        int64_t begin, n;
    };
    /// Reads the requested columns, which are some of `from`, into rows that are `stride` bytes apart in `out`.
    void read_rows(size_t tensor, const Columns& from, int64_t row0, int64_t rows, Range wanted, DType to,
                   std::byte* out, size_t stride) const {
        const int64_t block = from.set->block_rows(), end = row0 + rows;
        for (int64_t begin = row0, past = 0; begin < end; begin = past) {
            past = std::min(end, (begin / block + 1) * block);
            read_block(tensor, from, begin, past - begin, wanted, to, out + static_cast<size_t>(begin - row0) * stride,
                       stride);
        }
    }

    /// Like read_rows(), for rows of one block, which has one digest.
    void read_block(size_t tensor, const Columns& from, int64_t row, int64_t n, Range wanted, DType to, std::byte* out,
                    size_t stride) const {
        const TensorInfo& info = tensors_[tensor];
        const ValuesOf whose = {store_.name(), info.name};
        const bool blocks = is_quantised(info.type);
        const DType type = blocks ? DType::kF32 : plain_dtype(info.type);
        const int64_t width = info.shape.rank() == 1 ? 1 : info.shape[1];
        const bool whole = wanted.n == from.n,
                   together = whole && stride == static_cast<size_t>(wanted.n) * size_of(to);
        const auto bytes = static_cast<size_t>(static_cast<uint64_t>(n) * from.set->row_bytes());
        if (together && type == to && !blocks) {
            store_.read(*from.set, row, n, std::span(out, bytes));
            return check_rows(whose, type, out, n, wanted, row, width);
        }
        std::vector<std::byte> rows(bytes);
        store_.read(*from.set, row, n, rows);
        std::vector<float> decoded(blocks ? static_cast<size_t>(n * from.n) : 0);
        if (blocks) dequantise(info.type, rows.data(), n * from.n, decoded.data());
        const std::byte* const all = blocks ? std::as_bytes(std::span(decoded)).data() : rows.data();
        for (int64_t r = 0; r < n; ++r) {
            const std::byte* const values =
                all + static_cast<size_t>(r * from.n + wanted.begin - from.begin) * size_of(type);
            const int64_t index = (row + r) * width + wanted.begin;
            check_finite(whose, type, values, wanted.n, index);
            convert_finite(whose, type, values, to, out + static_cast<size_t>(r) * stride, wanted.n, index);
        }
    }

    /// Checks n contiguous rows.
    static void check_rows(const ValuesOf& whose, DType type, const std::byte* values, int64_t n, Range wanted,
                           int64_t row, int64_t width) {
        if (wanted.n == width) return check_finite(whose, type, values, n * width, row * width);
        for (int64_t r = 0; r < n; ++r) {
            check_finite(whose, type, values + static_cast<size_t>(r * wanted.n) * size_of(type), wanted.n,
                         (row + r) * width + wanted.begin);
        }
    }

    StoreReader store_;
    std::map<std::string, StoredType, std::less<>> block_types_;  // tensors in blocks
    std::vector<std::vector<Columns>> stored_;                    // in the order of tensors_
};

}  // namespace

std::unique_ptr<WeightSource> open_store_model(std::unique_ptr<ByteSource> source) {
    return std::make_unique<StoreModel>(std::move(source));
}

}  // namespace trireme
