#pragma once
/// The memory plan of a rank, made before memory is allocated: which owner layers are on chip, and which device buffers
/// the streamed ones need. Runs follow it; `trireme plan` shows it. Pure arithmetic.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "offload/full/full_cache.h"
#include "offload/retrieved/retrieval_shape.h"

namespace trireme {

/// Everything that a plan depends on, except the machine. Bytes are those of the rank that needs most.
struct PlanInput {
    static constexpr int64_t kAuto = -1, kAll = -2;

    KvShape kv;
    std::vector<OwnerIndex> reads;        // the owner that each attention of a forward reads, in order
    std::vector<LayerIndex> owners = {};  // [owners] the layer of each, for messages
    int64_t on_chip = kAuto;              // number of owner layers, kAuto: as many as fit, or kAll
    int64_t ring = 4;                     // slots that streamed tiles pass through
    size_t span_bytes = size_t{2} << 20;
    bool coded = false;                // streamed tiles are coded (Residency)
    size_t weight_bytes = 0;           // on the device
    size_t weight_bytes_per_step = 0;  // weights that a decode step reads
    size_t weights_per_step = 0;       // the number of these weights
    MemoryBytes work = {};             // activations, scratch, tables; independent of the residency
    size_t prefill_work_bytes = 0;     // the part of work.device that only a prefill uses
    bool by_layers = false;            // prefill layer by layer even if no layer is streamed
    // Counted only if a prefill goes layer by layer. The first two are alternatives: the prompt's residual streams on
    // the device, or in host memory. prompt_batches: the prompt's batches beyond the first, since all are then kept.
    MemoryBytes hidden_on_device = {}, hidden_on_host = {};
    MemoryBytes prompt_batches = {};
    RetrievalShape retrieval = {};  // what the middle level of a chain sees (TriForce); each sequence has a set
    std::optional<MemoryBytes> evicting = {};  // an evicting cache, instead of tiles of all tokens
    std::optional<MemoryBytes> heavy = {};     // heavy hitters of all tokens, for levels that propose
    MemoryBytes proposing = {};  // levels that propose: weights, windows, activations, without retrieval sets
};

/// What one rank may use, on this machine or on one that flags describe. Memory in bytes; a rate of 0 means unknown.
struct Machine {
    size_t device_memory = 0, host_memory = 0;
    size_t together = SIZE_MAX;  // limit of device plus host if both are the same memory; SIZE_MAX: none
    double device_gbps = 0;      // GB/s at which weights and KV are read on the device
    double link_gbps = 0;        // GB/s from host to device
    double link_us = 0;          // latency of a copy, us
    double layer_ms = 0;         // all-reduces of one layer in a step, ms
};

/// Bytes that a plan needs beyond what the machine has.
struct Shortage {
    size_t device = 0, host = 0, together = 0;
    /// Bytes that would have to be added; if device and host are the same memory, they are not counted twice.
    size_t total() const { return std::max(device + host, together); }
};

struct Plan {
    std::vector<bool> on_chip;  // [owner layers]
    int64_t on_chip_layers = 0, streamed_layers = 0;
    int64_t span_tiles = 0;          // tiles of a ring slot; 0: no layer is streamed
    int64_t frames = 0;              // streamed layers that the device may hold for several readers at one time
    std::vector<ReadRun> runs;       // consecutive reads of streamed layers in a forward that reads PlanInput::reads
    std::vector<int64_t> crossings;  // [owner layers] how often a forward fetches each, 0 on chip; empty: all on chip
    MemoryBytes kv, hidden, work;    // `work` includes the tables of streaming
    size_t prefill_work_bytes = 0;   // the part of work.device that only a prefill uses
    MemoryBytes retrieved;           // the retrieval set, without summary_bytes
    MemoryBytes heavy;               // PlanInput's
    MemoryBytes proposing;           // PlanInput's
    // All on the device. tail_bytes: the newest tiles (TailTiles). summary_bytes: the mean keys of retrieval's chunks.
    size_t weight_bytes = 0, ring_bytes = 0, frame_bytes = 0, tail_bytes = 0, summary_bytes = 0;
    bool hidden_on_host = false;
    size_t worst_host_bytes = 0;  // beyond `kv.host`, if no tile could be coded

    /// The memory of all parts. It is allocated before the prompt and kept. A prefill uses all of it: it also fills the
    /// retrieval set, layer by layer.
    MemoryBytes total() const {
        MemoryBytes all = kv + hidden + work + retrieved + heavy + proposing;
        all.device += weight_bytes + ring_bytes + frame_bytes + tail_bytes + summary_bytes;
        return all;
    }
    /// The part of total().device that decoding uses.
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

/// Returns [owners]: true for the n layers on chip, which are spread evenly, so that a streamed layer's copies overlap
/// with the compute of layers on chip.
std::vector<bool> interleaved(int64_t owners, int64_t n);
/// Like interleaved(), for owners with different numbers of readers: owners with more readers are put on chip first,
/// and owners with equal numbers are spread evenly. `reads`: as PlanInput::reads.
std::vector<bool> placed(const std::vector<OwnerIndex>& reads, int64_t owners, int64_t n);

/// The plan with exactly `on_chip` owner layers on chip and `frames` frames (stream/tile_ring.h), even if it does not
/// fit the machine.
Plan plan_with(const PlanInput& input, int64_t on_chip, bool hidden_on_host = false, int64_t frames = 0);
/// The plan with input.on_chip layers on chip. kAuto: as many as fit, unless fewer of them with more frames reduce the
/// copies over the link. A prompt's hidden states go to host memory if that keeps more layers on chip: a prefill
/// overlaps their copies with compute, whereas each streamed layer slows every decode step. If no plan fits, returns
/// the one with the least shortage. Errors: Exit::kConfig for more layers than there are owners.
Plan make_plan(const PlanInput& input, const Machine& machine);
/// The runs of a forward that reads input.reads, with the plan's residency.
std::vector<ReadRun> runs_of(const PlanInput& input, const Plan& plan);
/// The least value of machine.*which, in bytes, with which a plan fits, the rest of the machine unchanged. 0: no value
/// is enough, or the plan fits already.
size_t least_memory(const PlanInput& input, const Machine& machine, size_t Machine::*which);
/// The most tokens, in whole tiles and up to `at_most`, for which a plan fits; 0: none. `input_for(tokens)` describes
/// the run with this context, or this retrieval budget.
int64_t most_tokens(const std::function<PlanInput(int64_t tokens)>& input_for, const Machine& machine, int64_t at_most);
/// Like most_tokens(), but for any number n, in steps of 1.
int64_t most_that_fit(const std::function<PlanInput(int64_t n)>& input_for, const Machine& machine, int64_t at_most);

constexpr double gib(size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(size_t{1} << 30);
}
}  // namespace trireme
