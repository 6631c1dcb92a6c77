#pragma once
/// Rows that decode forwards have staged and that nobody has kept or dropped yet: for each sequence a tree that grows
/// out of its last committed token. Rows may be added over several forwards. No allocation after construction.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv.h"
#include "runtime/error.h"

namespace trireme {

class StagedRows {
  public:
    StagedRows() { rows_.reserve(kMaxRows); }

    /// Rows staged so far, dropped ones included: the number that the next one gets.
    int32_t size() const { return static_cast<int32_t>(rows_.size()); }
    /// One more row; its number. `parent`: an earlier row of the same sequence, or -1: the last committed token.
    /// Errors: Exit::kInternal for a row too many, or a parent that is none.
    int32_t add(int64_t sequence, int32_t parent) {
        const int32_t number = size();
        check(number < kMaxRows, "staged rows: {} and one more, at most {}", number, kMaxRows);
        check(parent < number && (parent < 0 || rows_[static_cast<size_t>(parent)].sequence == sequence),
              "staged row {} of sequence {} has the parent {}, which is none of its rows", number, sequence, parent);
        Row& row = rows_.emplace_back();
        row.sequence = sequence;
        if (parent >= 0) {
            const std::span<const int32_t> above = path(parent);
            std::copy(above.begin(), above.end(), row.path.begin());
            row.depth = static_cast<int32_t>(above.size());
        }
        row.path[static_cast<size_t>(row.depth)] = number;
        return number;
    }
    /// Rows above it in its tree: 0 behind the last committed token.
    int32_t depth(int32_t row) const { return rows_[static_cast<size_t>(row)].depth; }
    /// From the row of depth 0 down to the row itself.
    std::span<const int32_t> path(int32_t row) const {
        const Row& r = rows_[static_cast<size_t>(row)];
        return {r.path.data(), static_cast<size_t>(r.depth) + 1};
    }
    /// These rows of a sequence are a path: each the next one's parent, the first of depth 0.
    bool are_path(int64_t sequence, std::span<const int32_t> rows) const {
        if (rows.empty()) return true;
        const int32_t last = rows.back();
        return last >= 0 && last < size() && rows_[static_cast<size_t>(last)].sequence == sequence &&
               std::ranges::equal(path(last), rows);
    }
    /// Forgets the rows of a sequence; the others keep their numbers.
    void drop(int64_t sequence) {
        for (Row& r : rows_) {
            if (r.sequence == sequence) r.sequence = -1;
        }
    }
    void clear() { rows_.clear(); }

  private:
    struct Row {
        int64_t sequence = -1;  // -1: dropped
        int32_t depth = 0;
        std::array<int32_t, kMaxRows> path{};
    };
    std::vector<Row> rows_;
};

}  // namespace trireme
