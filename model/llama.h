#pragma once
/// The Llama forward pass on this rank's shard: rows in, logits out (DESIGN sections 3 and 4).

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/files/weight_source.h"
#include "model/shard.h"
#include "offload/kv_cache.h"
#include "runtime/device.h"

namespace trireme {

/// A token to be computed. Its parent is an earlier row of the same forward, or -1: the last committed token.
struct Row {
    int32_t token;
    int32_t position;
    int32_t parent = -1;
    int32_t sequence = 0;
};

struct LlamaOptions {
    DType weights = DType::kF16;  // type in memory: f32, f16 or bf16
    DType k_type = DType::kF16, v_type = DType::kF16;
    int64_t context = 0;  // tokens a sequence may have; 0: the model's
    int64_t sequences = 1;
};

/// done and total in bytes (loading) or tokens (prefill). Called on the host thread.
using Progress = std::function<void(int64_t done, int64_t total)>;

class Llama {
  public:
    /// Reads this rank's slices. Errors: Exit::kData (checkpoint), kConfig (context, ranks), kOs (memory).
    Llama(Device& device, Comm& comm, const WeightSource& source, const LlamaOptions& options,
          const Progress& progress = {});
    ~Llama();

    const LlamaConfig& config() const;
    const Shard& shard() const;
    int64_t context() const;
    /// Committed tokens of a sequence.
    int64_t length(int sequence = 0) const;

    /// Appends tokens to a sequence by the prefill path and commits them. Logits of the last token: `logits()` row 0.
    /// With `each`, also hands out the logits of every row: each(first position, f32 [rows, vocab]).
    /// Blocks until done. Errors: Exit::kConfig beyond the context.
    using EachLogits = std::function<void(int64_t position, HostTensor logits)>;
    void prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress = {},
                 const EachLogits& each = {});

    /// One decode forward of at most kMaxRows rows, rows of a sequence adjacent. Enqueues only: nothing waits, nothing
    /// is allocated. Keys and values stay provisional until keep().
    void forward(std::span<const Row> rows);
    /// Waits for the forward; f32 [rows, vocab], valid until the next forward.
    HostTensor logits();
    /// Commits rows of the last forward, in order, behind the sequence's committed tokens; the rest is dropped.
    void keep(int sequence, std::span<const int32_t> rows);
    /// Forgets all tokens from position n on.
    void truncate(int sequence, int64_t n);

    /// Bytes a decode step reads on this rank: weights once, and the KV of a sequence of this length.
    size_t weight_bytes() const;
    size_t kv_bytes(int64_t tokens) const;
    Stream& stream();

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace trireme
