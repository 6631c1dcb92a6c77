#pragma once
/// Scratch: every activation buffer, allocated once, with its shape. Heads, ffn and vocabulary are this rank's.

#include <array>
#include <cstdint>

#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "runtime/buffer.h"
#include "runtime/memory_bytes.h"

namespace trireme {

/// The activation buffers of a forward of n rows.
struct Activations {
    Tensor h;        // [n, dim] normed input, then a rank's partial output
    Tensor qkv;      // [n, (n_heads + 2 n_kv_heads) head_dim]
    Tensor q, kv;    // its columns: queries; keys and values
    Tensor att;      // [n, n_heads head_dim]
    Tensor gate_up;  // [n, 2 ffn_dim]
    Tensor act;      // [n, ffn_dim]
};

struct Scratch {
    Scratch(Device& device, const LlamaConfig& config, const Shard& shard);
    static MemoryBytes memory(const LlamaConfig& config, const Shard& shard);
    /// The first n rows of h, qkv, att, gate_up and act.
    Activations rows(int64_t n) const {
        const Tensor all = qkv.first_rows(n), heads = att.first_rows(n);
        return {.h = h.first_rows(n),
                .qkv = all,
                .q = all.slice_cols(0, heads.cols()),
                .kv = all.slice_cols(heads.cols(), all.cols() - heads.cols()),
                .att = heads,
                .gate_up = gate_up.first_rows(n),
                .act = act.first_rows(n)};
    }

    Tensor x;                  // [kPrefillRows, dim] the residual stream; only embed, add and add_rmsnorm write it
    Tensor h;                  // [kPrefillRows, dim] normed input, then a rank's partial output
    Tensor qkv;                // [kPrefillRows, (n_heads + 2 n_kv_heads) head_dim]
    Tensor att;                // [kPrefillRows, n_heads head_dim]
    Tensor gate_up;            // [kPrefillRows, 2 ffn_dim]
    Tensor act;                // [kPrefillRows, ffn_dim]
    Tensor last;               // [kMaxRows, dim] rows whose logits are computed, normed
    Tensor input;              // [kMaxRows, dim] the input of iterated layers; none: [0, dim]
    Tensor zeros;              // [kPrefillRows, n_kv_heads head_dim], only with iterated layers; Level fills it
    Tensor change;             // [kPrefillRows, 2] (Kernels::kv_append)
    Tensor part;               // [kMaxRows, vocab_part] this rank's logits
    Tensor gathered;           // [ranks, kMaxRows, vocab_part], packed if there are fewer rows; one rank: `part`
    Tensor saved;              // [ranks, 1, vocab_part] logits of one row, for Logits::restore()
    HostTensor gathered_host;  // `gathered` in pinned host memory
    HostTensor logits;         // [kMaxRows, vocab] as callers see them; one rank: a view of gathered_host
    Tensor uniforms, ids;      // i64 (times 2^53), i32 [kMaxRows]: random numbers, and the sampled tokens
    Tensor ends;               // i32 [kMaxRows]: the end of each row's uniforms and ids, if rows sample siblings
    HostTensor uniforms_host, ids_host, ends_host;
    Tensor distributions;  // i64 [kMaxRows, kRowDistributionWords]: distributions of the logits' rows
    Tensor proposals;      // i64 [kMaxRows, kProposalWords]
    Tensor accepted;       // i32 [kMaxRows + 1]: output of Kernels::accept
    HostTensor proposals_host, accepted_host, change_host;

  private:
    struct Want {
        Tensor* tensor;
        Shape shape;
        DType dtype = DType::kF32;
    };
    std::array<Want, 19> wants(const LlamaConfig& config, const Shard& shard);
    Scratch() = default;

    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
};

}  // namespace trireme
