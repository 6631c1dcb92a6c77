#pragma once
/// QueryHistory: the queries of the last committed tokens, for every owner layer. A RetrievalSet may select chunks by
/// the mean of these queries and the next token's. Sums replace means: the selection depends only on the order of
/// scores.

#include <array>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "offload/index.h"
#include "runtime/archive.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"

namespace trireme {

class QueryHistory {
  public:
    /// Stores the queries of the last `count` committed tokens, for `owners` layers with queries of `columns` elements.
    /// All work is enqueued on `compute`. Errors: Exit::kOs.
    QueryHistory(Device& device, Stream& compute, int64_t owners, int64_t count, int64_t columns);
    ~QueryHistory();
    static MemoryBytes memory(int64_t owners, int64_t count, int64_t columns);

    /// Clears the history: the queries of earlier tokens count as zeros.
    void forget();
    /// Stores the queries of staged rows from number `first` on: q f32 [rows, columns].
    void observe(Kernels& op, OwnerIndex owner, const Tensor& q, int64_t first);
    /// f32 [1, columns]: the sum of q's first row and the queries of the committed tokens. Valid until the next call.
    Tensor sum(Kernels& op, OwnerIndex owner, const Tensor& q);
    /// Serialises the queries of committed tokens.
    void state(Archive& ar) {
        ar.section("queries");
        for (const Tensor& queries : queries_) ar.memory(compute_, queries.first_rows(count_));
    }
    /// Appends the queries of these staged rows, by number, which have been committed. observe() has stored them.
    void kept(Kernels& op, std::span<const int32_t> rows);

  private:
    struct List {
        HostTensor host;  // i32 [count]
        Tensor device;
        Event free;  // reached when the kernels that read it are done
    };

    static constexpr size_t kLists = 8;
    Stream& compute_;
    int64_t count_;
    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
    // By owner, f32 [count + kMaxRows, columns]: those of committed tokens, the newest last; then those of staged rows.
    std::vector<Tensor> queries_;
    Tensor sum_, next_, none_;  // f32 [1, columns], [count, columns], [count, columns] of zeros
    Tensor numbers_;            // i32 [kMaxRows]: 0, 1, ...
    std::array<List, kLists> lists_;
    size_t next_list_ = 0;
};

}  // namespace trireme
