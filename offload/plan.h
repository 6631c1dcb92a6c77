#pragma once
/// Where a rank's KV lives, before any memory is asked for: which owner layers fit on the device, what the others need
/// to pass through it, and what a decode step then costs. Pure arithmetic (DESIGN section 4, "Residency").

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "offload/full_view.h"

namespace trireme {

/// What speculation over retrieved keys and values (TriForce, arXiv 2404.11912, section 4) keeps on the device.
struct Retrieval {
    int64_t budget = 0;  // tokens of every owner layer that the middle level attends to; 0: there is no such level
    int64_t chunk = 8;   // tokens that one summary, the mean of their keys, stands for
    int64_t rows = 0;    // speculated, behind the budget

    /// The middle level's keys and values, in whole tiles.
    size_t set_bytes(const KvShape& kv) const;
    /// Of every owner layer's context, in the keys' type.
    size_t summary_bytes(const KvShape& kv) const;
};

/// Everything that decides a plan but the machine. Bytes are one rank's: the one that needs most.
struct PlanInput {
    static constexpr int64_t kAuto = -1, kAll = -2;

    KvShape kv;
    std::vector<OwnerIndex> reads;  // the owner that each layer's attention reads
    int64_t on_chip = kAuto;        // owner layers, or as many as fit, or all
    int64_t ring = 4;               // slots of streamed tiles
    size_t span_bytes = size_t{2} << 20;
    size_t weight_bytes = 0;           // on the device
    size_t weight_bytes_per_step = 0;  // what a decode step reads of the weights
    MemoryBytes work = {};             // activations, scratch, tables: wherever the KV lives
    size_t prefill_work_bytes = 0;     // of the device's: what decoding leaves alone
    // Only where layers are streamed: a prompt's residual streams, on the device or in host memory, and the inputs of
    // all its batches, which every layer reads again.
    MemoryBytes hidden_on_device = {}, hidden_on_host = {};
    MemoryBytes prompt_batches = {};
    Retrieval retrieval = {};
    size_t draft_bytes = 0;  // a draft model, whole: its weights, its window, its work
};

/// What one rank has: this machine, or one that flags describe. 0 GB/s: not known, and no times are predicted.
struct Machine {
    size_t device_memory = 0, host_memory = 0;
    size_t together = SIZE_MAX;  // where both are one memory: what they may take of it
    double device_gbps = 0;      // of weights and KV on the device
    double link_gbps = 0;        // host to device
    double link_us = 0;          // of a copy, before its bytes
};

/// Bytes that a plan needs beyond what there is.
struct Shortage {
    size_t device = 0, host = 0, together = 0;
    /// Bytes that are lacking in all. Where device and host are one memory, what both lack is counted once.
    size_t total() const { return std::max(device + host, together); }
};

struct Plan {
    std::vector<bool> on_chip;  // by owner layer
    int64_t on_chip_layers = 0, streamed_layers = 0;
    int64_t span_tiles = 0;
    MemoryBytes kv, hidden, work;   // in `work`: tables, too
    size_t prefill_work_bytes = 0;  // of work.device
    // On the device alone.
    size_t weight_bytes = 0, ring_bytes = 0, tail_bytes = 0, retrieval_bytes = 0, summary_bytes = 0, draft_bytes = 0;
    bool hidden_on_host = false;

    /// Everything is allocated before the prompt is read and kept to the end. A prefill uses all of it.
    MemoryBytes total() const {
        MemoryBytes all = kv + hidden + work;
        all.device += weight_bytes + ring_bytes + tail_bytes + retrieval_bytes + summary_bytes + draft_bytes;
        return all;
    }
    /// Device bytes that decoding needs.
    size_t decode_bytes() const { return total().device - hidden.device - prefill_work_bytes; }
    Shortage shortage(const Machine& m) const {
        const auto beyond = [](size_t wanted, size_t there) { return wanted - std::min(wanted, there); };
        const MemoryBytes all = total();
        return {.device = beyond(all.device, m.device_memory),
                .host = beyond(all.host, m.host_memory),
                .together = beyond(all.device + all.host, m.together)};
    }
    bool fits(const Machine& m) const { return shortage(m).total() == 0; }
};

/// Which n of `owners` layers stay on chip: spread evenly, so that a streamed layer is copied while layers on chip are
/// computed.
std::vector<bool> interleaved(int64_t owners, int64_t n);

/// With exactly this many owner layers on chip.
Plan plan_with(const PlanInput& input, int64_t on_chip, bool hidden_on_host = false);
/// With the number of layers that the input asks for; kAuto: the most that fit. A prompt's hidden states go to the host
/// where that lets more layers stay on chip: a prefill overlaps their copies with its compute, and every layer that
/// stays spares each decode step a copy. Where nothing fits: the plan that lacks least.
Plan make_plan(const PlanInput& input, const Machine& machine);
/// The least memory of one kind (`which`) with which a plan fits, the rest of the machine unchanged. 0: the plan fits
/// as it is, or no amount of this memory is enough.
size_t least_memory(const PlanInput& input, const Machine& machine, size_t Machine::*which);
/// The most tokens, in whole tiles, for which a plan fits; 0: none. input_for(n) describes the run with n tokens of
/// what is looked for: context, or retrieval budget.
int64_t most_tokens(const std::function<PlanInput(int64_t tokens)>& input_for, const Machine& machine, int64_t at_most);

/// A decode step of one row behind `length` tokens, in the steady state: the ring's copies and the layers' reads,
/// played through. Times in milliseconds.
struct StepForecast {
    size_t h2d_bytes = 0;
    double copy_ms = 0;     // the link at work
    double compute_ms = 0;  // the device at work
    double step_ms = 0;     // both, as far as they overlap
};
StepForecast forecast(const PlanInput& input, const Plan& plan, const Machine& machine, int64_t length);

constexpr double gib(size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30);
}
}  // namespace trireme
