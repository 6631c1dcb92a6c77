#pragma once
/// Staged rows: rows of decode forwards whose keys and values are in staging buffers, neither committed to the KV cache
/// nor dropped. Those of a sequence form a tree below its last committed token. Rows may be added over several
/// forwards. No allocation after construction.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kv.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

class StagedRows {
  public:
    StagedRows() { rows_.reserve(kMaxRows); }

    /// The number of rows staged so far, including dropped ones while others remain. The next row gets this number.
    int32_t size() const { return static_cast<int32_t>(rows_.size()); }
    /// Adds a row and returns its number. `parent`: an earlier row of the same sequence, or -1: the last committed
    /// token. Errors: Exit::kInternal beyond kMaxRows rows, or if the parent is no such row.
    int32_t add(int64_t sequence, int32_t parent) {
        const int32_t number = size();
        check(number < kMaxRows, "staged rows: {} and one more, at most {}", number, kMaxRows);
        check(parent < number && (parent < 0 || rows_[index(parent)].sequence == sequence),
              "staged row {} of sequence {} has the parent {}, which is none of its rows", number, sequence, parent);
        Row& row = rows_.emplace_back();
        row.sequence = sequence;
        if (parent >= 0) {
            const std::span<const int32_t> above = path(parent);
            std::copy(above.begin(), above.end(), row.path.begin());
            row.depth = static_cast<int32_t>(above.size());
        }
        row.path[index(row.depth)] = number;
        return number;
    }
    /// The number of the row's ancestors in its tree: 0 if its parent is the last committed token.
    int32_t depth(int32_t row) const { return rows_[index(row)].depth; }
    /// The numbers of the rows from depth 0 of its tree down to the row itself.
    std::span<const int32_t> path(int32_t row) const {
        const Row& r = rows_[index(row)];
        return {r.path.data(), static_cast<size_t>(r.depth) + 1};
    }
    /// Whether these rows of a sequence are a path: the first has depth 0, and each is the parent of the next.
    bool are_path(int64_t sequence, std::span<const int32_t> rows) const {
        if (rows.empty()) return true;
        const int32_t last = rows.back();
        return last >= 0 && last < size() && rows_[index(last)].sequence == sequence &&
               std::ranges::equal(path(last), rows);
    }
    /// Drops the rows of a sequence; the others keep their numbers. If none are left, numbers begin again at 0.
    void drop(int64_t sequence) {
        bool others = false;
        for (Row& r : rows_) {
            if (r.sequence == sequence) r.sequence = -1;
            others |= r.sequence >= 0;
        }
        if (!others) clear();
    }
    /// Drops all rows.
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
