#pragma once
/// WindowCache: the cache of a drafting level (--spec draft, window). Attention sees a sequence's first tokens
/// (attention sinks) and its most recent ones, as if they were adjacent (StreamingLLM, arXiv 2309.17453, section 3.2).
/// Its memory does not grow with the sequence. It is on the device, and holds one sequence.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "offload/cache.h"
#include "offload/kept_lists.h"
#include "runtime/buffer.h"

namespace trireme {

struct WindowShape {
    int64_t sinks = 16, recent = 240;  // tokens
    int64_t tokens() const { return sinks + recent; }
};

/// Cosines and sines that rotate a key by `position` more positions: out f32 [head_dim], a row for Kernels::rope.
using Rotation = std::function<void(std::span<float> out, int64_t position)>;

/// A prefill takes at most the window: of a longer prompt the tokens between sinks and recent ones are left out
/// (part_of_prompt). Attention depends only on differences of positions. So positions increase from the window's
/// beginning, and each recent key is rotated once. When the window moves, the sinks are rotated by the same distance:
/// they remain directly before the recent tokens, as if positions were numbered within the window.
class WindowCache final : public KvCache {
  public:
    /// Errors: Exit::kOs.
    WindowCache(Device& device, Stream& compute, const KvShape& shape, const WindowShape& window, Rotation rotation);
    static MemoryBytes memory_for(const KvShape& shape, const WindowShape& window);

    /// A window that has moved cannot be truncated, except to 0 (or to its length, which changes nothing).
    KvExtent extent(int64_t sequence) const override {
        const int64_t tokens = length(sequence), window = window_.tokens();
        return {.slots = std::min(tokens, window), .truncate_from = tokens > window ? tokens : 0};
    }

    void begin(std::span<const RowGroup>, std::span<const OwnerIndex>) override {}
    void end() override;
    void write(Kernels& op, OwnerIndex owner, const Tensor& k, const Tensor& v, const RowsView& rows,
               const Tensor& change = {}) override;
    void attend(Kernels& op, OwnerIndex owner, const AttentionCall& call) override;

    void keep(Kernels& op, int64_t sequence, std::span<const int32_t> rows) override;
    void truncate(int64_t sequence, int64_t n) override;

    void state(Archive& ar) override;

    void begin_prefill(int64_t sequence, int64_t n) override;

  private:
    /// One owner's sinks before rounding: keys, rotated for their first positions, and values.
    struct Sinks {
        Tensor k, v;  // f32 [sinks, kv_heads * head_dim]
    };
    int64_t slot_of(int64_t token) const;
    void move_sinks(Kernels& op);

    WindowShape window_;
    Rotation rotation_;
    Stream& compute_;
    Arena<Space::kDevice> device_;
    Arena<Space::kHost> host_;
    KeptLists kept_;
    std::vector<LayerKv> layers_;  // by owner
    std::vector<Tensor> tiles_;    // u8: all of them
    std::vector<Sinks> sinks_;     // by owner
    Tensor first_rows_;            // i32 [sinks]: 0, 1, ...
    Tensor sequence_;              // i32 [sinks]: 0, 0, ...
    Tensor moved_;                 // f32 [sinks, kv_heads * head_dim]: the sinks' keys, rotated for the moved window
    struct Angles {
        HostTensor host;  // f32 [sinks, head_dim], all rows equal
        Tensor device;
        Event free;  // reached when the kernels that read it are done
    };
    std::vector<Angles> angles_;
    size_t next_angles_ = 0;
    int64_t prefill_ = -1;    // tokens of the current prefill; -1: none
    int64_t sinks_here_ = 0;  // 0 after a prompt shorter than the sinks: the window then only slides
};

}  // namespace trireme
