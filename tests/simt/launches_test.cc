// The kernels and blocks that the GPU's operations launch, recorded without running them.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/alignment.h"
#include "kernels/cuda/gpu_kernels.h"
#include "runtime/device.h"

namespace trireme::simt {
namespace {

struct Launch {
    std::string name;
    int64_t blocks;
    std::vector<uint32_t> aligned = {};  // a library's product: w, x, out
};

/// A Launcher of gpu_kernels.h that records launches.
class Recorder {
  public:
    explicit Recorder(std::vector<Launch>& launches) : launches_(&launches) {}
    template <class Body>
    void launch(const char* name, size_t, const gpu::Grid& grid, const typename Body::Args&) {
        launches_->push_back({name, grid.x * grid.y * grid.z});
    }
    void multiply(const char* name, size_t, const Tensor& out, const Tensor& x, const Tensor& w) {
        launches_->push_back({name, 1, {gpu::alignment_of(w), gpu::alignment_of(x), gpu::alignment_of(out)}});
    }

  private:
    std::vector<Launch>* launches_;
};

/// Kernels that are never run, so that their operands need no memory.
struct Dry {
    explicit Dry(Phase phase)
        : device(open_device("cpu", {.threads = 1})),
          kernels(*device, Recorder(launches), phase,
                  {.max_rows = kPrefillRows, .max_k = 1024, .max_n = 1024, .heads = 32, .head_dim = 128}) {}

    /// An operand of this shape that is never read.
    Tensor operand(DType type, const Shape& shape) { return at(4096, type, shape); }
    static Tensor at(uintptr_t address, DType type, const Shape& shape) {
        return Tensor(reinterpret_cast<void*>(address), type, shape);
    }
    LayerKv layer(int64_t kv_heads, int64_t head_dim) {
        const Shape staged{kv_heads, kMaxRows, head_dim};
        return {.layout = {.kv_heads = kv_heads, .head_dim = head_dim},
                .tiles = operand(DType::kI64, {1, 4}),
                .staged_k = operand(DType::kF16, staged),
                .staged_v = operand(DType::kF16, staged)};
    }

    std::vector<Launch> launches;
    std::unique_ptr<Device> device;
    gpu::GpuKernels<Recorder> kernels;
};

TEST(Launches, PrefillAttentionHasBlocksForTheHeadsThatShareAKvHead) {
    constexpr int64_t kVectors = gpu::AttendPrefill<f16, 128>::kVectors;
    for (const std::vector<int64_t>& runs : {std::vector<int64_t>(32, 1), std::vector<int64_t>(8, 4), {32}, {2, 3}}) {
        for (const int64_t rows : {int64_t{1}, int64_t{63}, int64_t{64}, int64_t{65}, kPrefillRows}) {
            int64_t heads = 0, needed = 0;
            for (const int64_t run : runs) {
                heads += run;
                needed += (rows * run + kVectors - 1) / kVectors;
            }
            Dry dry(Phase::kPrefill);
            const auto kv_heads = static_cast<int64_t>(runs.size());
            const Tensor q = dry.operand(DType::kF32, {rows, heads * 128}), ids = dry.operand(DType::kI32, {rows});

            dry.kernels.attention(q, q, dry.layer(kv_heads, 128), dry.operand(DType::kI32, {heads}),
                                  {.slots = ids, .sequences = ids, .cached = ids, .ancestors = {}, .max_slots = rows});

            ASSERT_EQ(dry.launches.size(), 1U);
            EXPECT_GE(dry.launches[0].blocks, needed) << heads << " heads, " << rows << " rows";
            EXPECT_LT(dry.launches[0].blocks, needed + kv_heads) << heads << " heads, " << rows << " rows";
        }
    }
}

// With an odd k, rows of f16 weights begin at any address. The alignment of the other operands does not suffer.
TEST(Launches, EveryOperandOfALibrarysProductIsAsAlignedAsItIs) {
    struct Case {
        DType type;
        int64_t n, k;
        uint32_t w, out;
    };
    for (const Case& c : {Case{DType::kF16, 100, 577, 2, 16},
                          {DType::kBF16, 576, 578, 4, 256},
                          {DType::kF16, 33, 576, 128, 4},
                          {DType::kBF16, 64, 1024, 256, 256},
                          {DType::kF32, 64, 577, 4, 256}}) {
        Dry dry(Phase::kPrefill);

        dry.kernels.matmul(Dry::at(1 << 24, DType::kF32, {8, c.n}), dry.operand(DType::kF32, {8, c.k}),
                           Dry::at(1 << 20, c.type, {c.n, c.k}));

        const std::vector<uint32_t>& aligned = dry.launches.back().aligned;
        ASSERT_EQ(aligned.size(), 3U);
        EXPECT_EQ(aligned[0], c.w) << c.k;
        EXPECT_GE(aligned[1], c.type == DType::kF32 ? 4U : 64U) << c.k;
        EXPECT_EQ(aligned[2], c.out) << c.n;
    }
}

TEST(Launches, AnAddressCountsForTheAlignmentToo) {
    EXPECT_EQ(gpu::alignment_of(Dry::at(4096 + 8, DType::kF16, {2, 64})), 8U);
    EXPECT_EQ(gpu::alignment_of(Dry::at(4096 + 2, DType::kF16, {2, 64})), 2U);
}

// The operations of model/layers.cc with weights of 16 bits, and of f32: these have no rounding and no gated product.
TEST(Launches, ADecodeLayerIsTenKernels) {
    for (const DType weights : {DType::kF16, DType::kBF16, DType::kF32}) {
        Dry dry(Phase::kDecode);
        uintptr_t next = 0;
        const auto fresh = [&](DType type, const Shape& shape) { return Dry::at(next += 1 << 24, type, shape); };
        const auto matrix = [&](int64_t n, int64_t k) { return WeightMatrix(fresh(weights, {n, k})); };
        const Tensor x = fresh(DType::kF32, {1, 512}), h = fresh(DType::kF32, {1, 512}),
                     qkv = fresh(DType::kF32, {1, 1024}), att = fresh(DType::kF32, {1, 512}),
                     gate_up = fresh(DType::kF32, {1, 1024}), act = fresh(DType::kF32, {1, 512}),
                     norm = fresh(DType::kF32, {512}), angles = fresh(DType::kF32, {1, 128}),
                     ids = fresh(DType::kI32, {1}), path = fresh(DType::kI32, {1, kMaxRows});
        const WeightMatrix wqkv = matrix(1024, 512), wo = matrix(512, 512), wgu = matrix(1024, 512),
                           down = matrix(512, 512);
        const RowsView rows = {.slots = ids, .sequences = ids, .cached = ids, .ancestors = path, .max_slots = 256};
        auto& op = dry.kernels;
        const Tensor heads = fresh(DType::kI32, {4}), normed = op.input_of(h, wqkv), seen = op.input_of(att, wo);

        op.add_rmsnorm(normed, x, h, norm, 1e-5F);
        op.matmul(qkv, normed, wqkv);
        op.rope(qkv.slice_cols(0, 768), angles, 128);
        op.kv_stage(dry.layer(2, 128), qkv.slice_cols(512, 256), qkv.slice_cols(768, 256), rows);
        op.attention(seen, qkv.slice_cols(0, 512), dry.layer(2, 128), heads, rows);
        op.matmul(h, seen, wo);
        op.add_rmsnorm(normed, x, h, norm, 1e-5F);
        op.matmul_swiglu(op.input_of(act, down), gate_up, normed, wgu);
        op.matmul(h, op.input_of(act, down), down);

        std::vector<std::string> names;
        for (const Launch& l : dry.launches) names.push_back(l.name);
        std::vector<std::string> want = {"add_rmsnorm",     "matmul", "rope",        "kv_stage",      "attention",
                                         "attention_merge", "matmul", "add_rmsnorm", "matmul_swiglu", "matmul"};
        if (weights == DType::kF32) {
            want[8] = "matmul";
            want.insert(want.begin() + 9, "swiglu");
        }
        EXPECT_EQ(names, want) << name_of(weights);
    }
}

TEST(Launches, RowsAreKeptInAllLayersAtOnce) {
    for (const auto& [layers, launches] : {std::pair{1, 1U}, {32, 1U}, {128, 1U}, {129, 2U}}) {
        Dry dry(Phase::kDecode);
        const std::vector<LayerKv> kv(static_cast<size_t>(layers), dry.layer(8, 128));

        dry.kernels.kv_keep(kv, dry.operand(DType::kI32, {5, 3}));

        EXPECT_EQ(dry.launches.size(), launches);
        int64_t blocks = 0;
        for (const Launch& l : dry.launches) blocks += l.blocks;
        EXPECT_EQ(blocks, 5 * 8 * layers);
    }
}

// Several blocks copy a head's tokens; one block runs even if there is nothing to copy, to write the head's first
// entry.
TEST(Launches, SlotsAreGatheredByRunsOfThem) {
    for (const auto& [cached, runs] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {64, 1}, {65, 2}, {600, 8}}) {
        Dry dry(Phase::kPrefill);
        const Tensor slots = dry.operand(DType::kI32, {3, 8, 500}), heads = dry.operand(DType::kI32, {3, 8});
        const Tensor staged = dry.operand(DType::kF16, {3, 8, kMaxRows, 128});
        const SlotKv kv = {.layout = dry.layer(8, 128).layout,
                           .tiles = dry.operand(DType::kI64, {3, 8, 2}),
                           .staged_k = staged,
                           .staged_v = staged,
                           .tokens = slots,
                           .ranks = slots,
                           .scores = dry.operand(DType::kF32, {3, 8, 500}),
                           .counts = heads,
                           .budgets = heads};
        LayerKv to = dry.layer(8, 128);
        to.begins = dry.operand(DType::kI32, {8});

        dry.kernels.slot_gather(to, kv, dry.operand(DType::kI32, {8, 500}), {.owner = 1, .cached = cached, .fresh = 9});

        ASSERT_EQ(dry.launches.size(), 1U);
        EXPECT_EQ(dry.launches[0].blocks, 8 * runs) << cached;
    }
}

TEST(Launches, KeyWeightsHaveABlockForEveryRunOfSlotsAndQueryHead) {
    Dry dry(Phase::kPrefill);
    const Tensor q = dry.operand(DType::kF32, {5, 32 * 128}), ids = dry.operand(DType::kI32, {5});

    dry.kernels.key_weights(dry.operand(DType::kF32, {32, 700}), q, dry.operand(DType::kF32, {5, 32, 2}),
                            dry.layer(8, 128), dry.operand(DType::kI32, {32}),
                            {.slots = ids, .sequences = ids, .cached = ids, .ancestors = {}, .max_slots = 700});

    ASSERT_EQ(dry.launches.size(), 1U);
    EXPECT_EQ(dry.launches[0].blocks, 11 * 32);
}

}  // namespace
}  // namespace trireme::simt
