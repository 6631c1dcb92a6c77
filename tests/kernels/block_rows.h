#pragma once
/// Random weights in blocks, with their values in f64.

#include <bit>
#include <cstring>
#include <vector>

#include "kernels/interleaved.h"
#include "model/files/dequantise.h"
#include "tests/kernels/harness.h"
#include "tests/support/stored_types.h"

namespace trireme::test {

/// Rows of random blocks, of which every bit may be set, with scales near 1/64 and of both signs.
struct BlockRowsOf {
    BlockRowsOf(StoredType t, int64_t n, int64_t columns, uint32_t seed)
        : type(t), rows(n), cols(columns), bytes(static_cast<size_t>(n * stride())), values(n, columns) {
        uint32_t state = seed * 2654435761u + 1;
        const auto next = [&] { return state = state * 1664525u + 1013904223u; };
        for (auto& b : bytes) b = static_cast<std::byte>(next() >> 24);
        const BlockLayout l = layout_of(t);
        for (size_t at = 0; at < bytes.size(); at += l.bytes) {
            for (const int h : {halves_of(t).first, halves_of(t).second}) {
                if (h < 0) continue;
                const float scale = (static_cast<float>(next() >> 20) / 4096 + 0.5F) / 64;
                const f16 half(next() >> 31 != 0 ? scale : -scale);
                std::memcpy(bytes.data() + at + static_cast<size_t>(h), &half.bits, 2);
            }
            if (t == StoredType::kMXFP4) bytes[at] = static_cast<std::byte>(118 + (next() >> 29));
            if (t != StoredType::kInt4 && t != StoredType::kFP8) continue;
            const float scale = (static_cast<float>(next() >> 20) / 4096 + 0.5F) / (t == StoredType::kFP8 ? 4096 : 64);
            uint32_t word = std::bit_cast<uint32_t>(next() >> 31 != 0 ? scale : -scale) & 0xffffff00u;
            if (t == StoredType::kInt4) word |= (next() >> 16) % 17;  // the zero point
            std::memcpy(bytes.data() + at, &word, 4);
            for (size_t i = 4; i < l.bytes && t == StoredType::kFP8; ++i) {
                if ((bytes[at + i] & std::byte{0x7f}) == std::byte{0x7f}) bytes[at + i] = std::byte{3};  // a NaN
            }
        }
        std::vector<float> row(static_cast<size_t>(columns));
        for (int64_t r = 0; r < n; ++r) {
            dequantise(t, bytes.data() + static_cast<size_t>(r * stride()), columns, row.data());
            for (int64_t c = 0; c < columns; ++c) values(r, c) = static_cast<double>(row[static_cast<size_t>(c)]);
        }
    }
    int64_t stride() const {
        const BlockLayout l = layout_of(type);
        return cols / l.elements * static_cast<int64_t>(l.bytes);
    }
    WeightRows part() { return {type, bytes.data(), rows, stride()}; }
    /// The rows in tiles, of which the first `before` rows are others'.
    WeightRows tiles(int64_t before = 0) {
        interleaved.assign(static_cast<size_t>(interleaved_rows(before + rows) * stride()), std::byte{0x5a});
        interleave(type, std::span(bytes.data(), bytes.size()), stride(), interleaved.data(), before);
        return {type, interleaved.data(), rows, stride(), true, before};
    }
    WeightRows part(ActivationType as) { return interleaves(as) && can_interleave(type) ? tiles() : part(); }

    StoredType type;
    int64_t rows, cols;
    BackendVector<std::byte> bytes, interleaved;
    Rows values;
};

}  // namespace trireme::test
