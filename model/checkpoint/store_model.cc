#include "model/checkpoint/store_model.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <system_error>

#include "model/checkpoint/expected_tensors.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/files/store/reader.h"
#include "model/files/tensor_values.h"
#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::optional<StoredType> stored_type(DType type) {
    if (type == DType::kF32) return StoredType::kF32;
    if (type == DType::kF16) return StoredType::kF16;
    if (type == DType::kBF16) return StoredType::kBF16;
    return {};
}

std::vector<uint64_t> dims_of(const StoreSet& set) {
    return {set.shape.begin(), set.shape.end()};
}

class StoreModel final : public WeightSource {
  public:
    explicit StoreModel(std::unique_ptr<ByteSource> source) : store_(std::move(source), kStoredModel) {
        read_config();
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

    void take(const ExpectedTensor& want, std::map<std::string_view, const StoreSet*>& found, TensorProblems& problems,
              NaturalType& natural) {
        std::vector<Columns> columns;
        if (const auto whole = found.find(want.name); whole != found.end()) {
            const StoreSet& set = *whole->second;
            found.erase(whole);
            if (!problems.compare(want, stored_type(set.type).has_value(), name_of(set.type), dims_of(set))) return;
            columns.push_back({&set, 0, want.shape.rank() == 1 ? 1 : want.shape[1]});
        } else if (!take_columns(want, found, columns, problems)) {
            return;
        }
        const StoredType type = *stored_type(columns.front().set->type);
        stored_.push_back(std::move(columns));
        add_tensor({want.name, type, want.shape});
        natural.add(type, want.shape.elements());
    }

    bool take_columns(const ExpectedTensor& want, std::map<std::string_view, const StoreSet*>& found,
                      std::vector<Columns>& columns, TensorProblems& problems) {
        int64_t end = 0;
        bool fits = true;
        for (auto part = found.find(want.name + "/0"); part != found.end();
             part = found.find(fmt::format("{}/{}", want.name, columns.size()))) {
            const StoreSet& set = *part->second;
            found.erase(part);
            columns.push_back({&set, end, set.shape.back()});
            fits = fits && want.shape.rank() == 2 && set.shape.size() == 2 && set.shape[0] == want.shape[0] &&
                   set.shape[1] > 0 && set.shape[1] <= want.shape[1] - end && stored_type(set.type).has_value() &&
                   set.type == columns.front().set->type;
            if (fits) end += set.shape[1];
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
        const DType type = from.set->type;
        const int64_t width = info.shape.rank() == 1 ? 1 : info.shape[1];
        const bool whole = wanted.n == from.n,
                   together = whole && stride == static_cast<size_t>(wanted.n) * size_of(to);
        const auto bytes = static_cast<size_t>(static_cast<uint64_t>(n) * from.set->row_bytes());
        if (together && type == to) {
            store_.read(*from.set, row, n, std::span(out, bytes));
            return check_rows(whose, type, out, n, wanted, row, width);
        }
        std::vector<std::byte> rows(bytes);
        store_.read(*from.set, row, n, rows);
        for (int64_t r = 0; r < n; ++r) {
            const std::byte* const values =
                rows.data() + static_cast<size_t>(r * from.n + wanted.begin - from.begin) * size_of(type);
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
    std::vector<std::vector<Columns>> stored_;  // in the order of tensors_
};

}  // namespace

std::unique_ptr<WeightSource> open_store_model(std::unique_ptr<ByteSource> source) {
    return std::make_unique<StoreModel>(std::move(source));
}

}  // namespace trireme
