#pragma once
/// The KV of a layer for tests: tiles scattered in memory, filled by the kernels, and the expected results of
/// attention.

#include "tests/kernels/harness.h"

namespace trireme::test {

/// Element i of a row of KV.
inline double row_element(DType type, const char* row, int64_t dim, int64_t i) {
    const auto as = [&]<class T>(T) {
        return static_cast<double>(static_cast<float>(reinterpret_cast<const T*>(row)[i]));
    };
    if (type == DType::kF16) return as(f16());
    if (type == DType::kBF16) return as(bf16());
    if (type == DType::kF32) return as(0.0F);
    f16 scale;
    std::memcpy(&scale, row + dim + i / kQuantBlock * 2, sizeof(scale));
    return static_cast<double>(reinterpret_cast<const int8_t*>(row)[i]) *
           static_cast<double>(static_cast<float>(scale));
}
/// Rows of KV, written by hand: n elements of `from`.
inline std::vector<char> written_row(DType type, int64_t n, const std::function<double(int64_t)>& from) {
    std::vector<char> row(row_bytes(type, n));
    float most = 0;
    for (int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<float>(from(i));
        if (type == DType::kF16) reinterpret_cast<f16*>(row.data())[i] = f16(x);
        if (type == DType::kBF16) reinterpret_cast<bf16*>(row.data())[i] = bf16(x);
        if (type == DType::kF32) reinterpret_cast<float*>(row.data())[i] = x;
        most = i % kQuantBlock == 0 ? std::fabs(x) : std::fmax(most, std::fabs(x));
        if (type != DType::kQ8_0 || (i + 1) % kQuantBlock != 0) continue;
        const f16 scale(most / 127);
        std::memcpy(row.data() + n + i / kQuantBlock * 2, &scale, sizeof(scale));
        for (int64_t j = i + 1 - kQuantBlock; j <= i; ++j) {
            row[static_cast<size_t>(j)] =
                static_cast<char>(std::nearbyintf(static_cast<float>(from(j)) * (1 / (most / 127))));
        }
    }
    return row;
}
/// Element i of the key, or value, of a token of a tile. keys, values: those of the head.
inline double tile_element(const KvLayout& l, const char* keys, const char* values, int64_t token, int64_t i,
                           bool value) {
    const DType type = value ? l.v_type : l.k_type;
    const auto row = static_cast<int64_t>(row_bytes(type, l.head_dim));
    if (value || backend_name() != "cpu") {
        return row_element(type, (value ? values : keys) + token * row, l.head_dim, i);
    }
    std::vector<char> key(static_cast<size_t>(row));
    KeyBlocks(const_cast<char*>(keys), type, l.head_dim).get(token, key.data(), 0, l.head_dim);  // only read
    return row_element(type, key.data(), l.head_dim, i);
}

struct Kv {
    Kv(const KvLayout& l, int64_t sequences, int64_t max_tiles)
        : layout(l),
          table(DType::kI64, sequences, max_tiles, 2),
          staged_k(stored_type(l.k_type), l.kv_heads * kMaxRows, stored_columns(l.k_type, l.head_dim)),
          staged_v(stored_type(l.v_type), l.kv_heads * kMaxRows, stored_columns(l.v_type, l.head_dim)) {
        // Tiles are in reverse order, with gaps between them: nothing may rely on their order.
        const size_t bytes = layout.tile_bytes() + 192;
        memory.resize(static_cast<size_t>(sequences * max_tiles) * bytes,
                      static_cast<char>(0xff));  // NaN in every type
        for (int64_t i = 0; i < sequences * max_tiles; ++i) {
            char* tile = memory.data() + memory.size() - static_cast<size_t>(i + 1) * bytes;
            table.at<int64_t>(i / max_tiles, i % max_tiles) = static_cast<int64_t>(reinterpret_cast<uintptr_t>(tile));
        }
    }
    LayerKv view() {
        const auto staged = [&](Operand& rows, DType type) {
            return Tensor(rows.tensor().data(), stored_type(type), layout.staged_shape(type));
        };
        return {layout, table.tensor(), staged(staged_k, layout.k_type), staged(staged_v, layout.v_type)};
    }
    /// Element i of a key or value: in a slot of a sequence, or of a staged row.
    double element(int64_t sequence, int64_t slot, int64_t head, int64_t i, bool value) {
        const char* tile = reinterpret_cast<const char*>(table.at<int64_t>(sequence, slot / kTileTokens));
        const auto heads = static_cast<size_t>(layout.kv_heads), before = static_cast<size_t>(head);
        return tile_element(layout, tile + before * layout.k_bytes() / heads,
                            tile + layout.k_bytes() + before * layout.v_bytes() / heads, slot % kTileTokens, i, value);
    }
    double staged_element(int64_t row, int64_t head, int64_t i, bool value) {
        const DType type = value ? layout.v_type : layout.k_type;
        const auto* rows = static_cast<const char*>((value ? staged_v : staged_k).tensor().data());
        return row_element(type,
                           rows + (head * kMaxRows + row) * static_cast<int64_t>(row_bytes(type, layout.head_dim)),
                           layout.head_dim, i);
    }
    /// A view whose table holds tiles [first, end) only.
    LayerKv view(Operand& part_table, const TileRange& part) {
        LayerKv kv = view();
        for (int64_t s = 0; s < table.rows(); ++s) {
            for (int64_t t = part.first; t < std::min(part.end, table.cols()); ++t) {
                part_table.at<int64_t>(s, t - part.first) = table.at<int64_t>(s, t);
            }
        }
        kv.tiles = part_table.tensor();
        kv.first_tile = part.first;
        return kv;
    }
    int64_t width() const { return layout.kv_heads * layout.head_dim; }

    KvLayout layout;
    Operand table;
    BackendVector<char> memory;
    Operand staged_k, staged_v;
};

/// A RowsView and the memory that it refers to.
struct RowSet {
    explicit RowSet(int64_t rows)
        : slots(DType::kI32, rows, 1),
          sequences(DType::kI32, rows, 1),
          cached(DType::kI32, rows, 1),
          ancestors(DType::kI32, rows, kMaxRows, 1) {
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < kMaxRows; ++i) ancestors.at<int32_t>(r, i) = -1;  // must not be read
    }
    void set(int64_t row, int64_t sequence, int64_t committed_tokens, const std::vector<int32_t>& path) {
        sequences.at<int32_t>(row, 0) = static_cast<int32_t>(sequence);
        cached.at<int32_t>(row, 0) = static_cast<int32_t>(committed_tokens);
        slots.at<int32_t>(row, 0) = static_cast<int32_t>(committed_tokens + static_cast<int64_t>(path.size()) - 1);
        for (size_t i = 0; i < path.size(); ++i) ancestors.at<int32_t>(row, static_cast<int64_t>(i)) = path[i];
    }
    RowsView view(int64_t max_slots) {
        return {slots.vector(), sequences.vector(), cached.vector(), ancestors.tensor(), max_slots};
    }

    Operand slots, sequences, cached, ancestors;
};

/// Stages the keys and values of new rows as staged rows 0, 1, ..
inline void stage_all(Machine& m, const LayerKv& kv, const Tensor& k, const Tensor& v) {
    RowSet rows(k.rows());
    for (int64_t r = 0; r < k.rows(); ++r) rows.set(r, 0, 0, {static_cast<int32_t>(r)});
    m->kv_stage(kv, k, v, rows.view(1));
    m.stream->synchronize();
}

/// Writes rows [0, keys.rows()) of keys and values to slots [0, ..) of a sequence through a prefill machine.
inline void append_all(Machine& m, Kv& kv, int64_t sequence, Operand& keys, Operand& values) {
    if (keys.rows() == 0) return;
    RowSet rows(keys.rows());
    for (int64_t r = 0; r < keys.rows(); ++r) rows.set(r, sequence, r, {0});
    m->kv_append(kv.view(), keys.tensor(), values.tensor(), rows.view(keys.rows()));
    m.stream->synchronize();
}

/// Element `col` of the value in slot p, for tests that require exact sums of values.
inline double whole_value(int64_t p, int64_t col) {
    return static_cast<double>((p * 7 + col * 3) % 31 - 11);
}

/// |error| of an attention output: scores are off by eps sqrt(dim) |q||k| / sqrt(dim). The weights' relative error is
/// twice that plus the exponential's, and the weighted mean is a sum over slots. If queries and probabilities are
/// rounded to `inputs` first, every product of a score and every weight is off by half a step.
inline double attention_tolerance(const Rows& q, const Rows& k, const Rows& v, int64_t heads,
                                  DType inputs = DType::kF32) {
    const double dim = static_cast<double>(q.cols / heads);
    double norms = 0;
    const auto head_norm = [](const Rows& x, int64_t head_dim) {
        double worst = 0;
        for (int64_t r = 0; r < x.rows; ++r) {
            for (int64_t c = 0; c < x.cols; c += head_dim) {
                double squares = 0;
                for (int64_t i = 0; i < head_dim; ++i) squares += x(r, c + i) * x(r, c + i);
                worst = std::fmax(worst, std::sqrt(squares));
            }
        }
        return worst;
    };
    norms = head_norm(q, q.cols / heads) * head_norm(k, q.cols / heads);
    const double score = kEps * norms * (1 + 1 / std::sqrt(dim));
    // kQ8_0: queries are rounded to 1/65024 of the largest element of a block (kernels/cpu/byte_dots.h).
    const double step = inputs == DType::kF32    ? 0
                        : inputs == DType::kQ8_0 ? std::sqrt(dim) / 65024
                                                 : eps_of(inputs) / 2;
    const double rounded = step * (2 * norms / std::sqrt(dim) + 1);
    return (2 * score + rounded + kEps * (8 + std::sqrt(static_cast<double>(k.rows)))) * largest(v);
}

}  // namespace trireme::test
