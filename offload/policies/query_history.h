#pragma once
/// The queries of the last tokens that were kept, of every owner layer: a retrieving level may choose by their mean and
/// that of the token behind them. Sums stand for means: what is chosen depends on the order of scores alone.

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
    /// Of the last `count` kept tokens, for `owners` layers with queries of `columns` numbers. All work is enqueued on
    /// `compute`. Errors: Exit::kOs.
    QueryHistory(Device& device, Stream& compute, int64_t owners, int64_t count, int64_t columns);
    ~QueryHistory();
    static MemoryBytes memory(int64_t owners, int64_t count, int64_t columns);

    /// No token has been kept.
    void forget();
    /// q f32 [rows, columns]: of staged rows from number `first` on.
    void saw(Kernels& op, OwnerIndex owner, const Tensor& q, int64_t first);
    /// f32 [1, columns]: q's first row, and those of the kept tokens added. Valid until the next call.
    Tensor sum(Kernels& op, OwnerIndex owner, const Tensor& q);
    /// The queries of kept tokens.
    void state(Archive& ar) {
        ar.section("queries");
        for (const Tensor& queries : queries_) ar.memory(compute_, queries.first_rows(count_));
    }
    /// These staged rows, at least one, are kept behind the tokens that were.
    void kept(Kernels& op, std::span<const int32_t> rows);

  private:
    struct List {
        HostTensor host;  // i32 [count]
        Tensor device;
        Event free;
    };

    static constexpr size_t kLists = 8;
    Stream& compute_;
    int64_t count_;
    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
    std::vector<Tensor>
        queries_;  // by owner: f32 [count + kMaxRows, columns]: of kept tokens, the newest last; of staged rows
    Tensor sum_, next_, none_;  // f32 [1, columns], [count, columns], [count, columns] of zeros
    Tensor numbers_;            // i32 [kMaxRows]: 0, 1, ...
    std::array<List, kLists> lists_;
    size_t next_list_ = 0;
};

}  // namespace trireme
