// Guarantees of a cache: a layer's last writing pass counts, and observers are notified of every complete tile.

#include <array>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "offload/full/full_cache.h"

namespace trireme::test {
namespace {

constexpr int64_t kDim = 8, kOwners = 3;

/// A cache with real kernels; all elements of a call's keys and values are one number.
class PlainRows {
  public:
    explicit PlainRows(std::vector<bool> on_chip, int64_t context = 2048)
        : cache_(*device_, *stream_,
                 {.layout = {.kv_heads = 1, .head_dim = kDim, .k_type = DType::kF32, .v_type = DType::kF32},
                  .owner_layers = kOwners,
                  .context = context},
                 {.on_chip = std::move(on_chip), .ring = 3, .span_bytes = 1, .verify = true}) {}
    ~PlainRows() { stream_->drain(); }

    FullCache& cache() { return cache_; }

    /// A pass over one layer that writes n tokens.
    void write_pass(OwnerIndex owner, int64_t first, int64_t n, float value) {
        cache_.begin_layer(owner, KvCache::Pass::kWrites);
        for (int64_t done = 0; done < n; done += kPrefillRows) {
            const int64_t rows = std::min(kPrefillRows, n - done);
            fill(rows, value);
            const RowsView r = prompt(first + done, rows);
            cache_.write(*prefill_, owner, matrix(rows), matrix(rows), r);
            cache_.attend(*prefill_, owner, {out(rows), matrix(rows), kv_of_head(), r});
            stream_->synchronize();
        }
    }
    /// Reads all n tokens of a layer in a prefill; returns what attention outputs for the last one.
    float read_pass(OwnerIndex owner, int64_t n) {
        cache_.begin_layer(owner, KvCache::Pass::kReads);
        fill(1, 0);
        cache_.attend(*prefill_, owner, {out(1), matrix(1), kv_of_head(), prompt(n - 1, 1)});
        return first_element();
    }
    /// Runs a decode forward of one row that holds `value` in every layer; returns the attention output by owner.
    std::array<float, kOwners> decode(float value) {
        const int64_t length = cache_.length(0);
        const RowGroup group{.sequence = 0, .first = 0, .rows = 1, .bound = length + 1};
        std::array<float, kOwners> seen{};
        cache_.drop();
        cache_.stage(0, -1);
        cache_.begin({&group, 1});
        for (OwnerIndex owner; owner.i < kOwners; ++owner) {
            fill(1, value);
            const RowsView r = prompt(length, 1);
            cache_.write(*decode_, owner, matrix(1), matrix(1), r);
            fill(1, 0);
            cache_.attend(*decode_, owner, {out(1), matrix(1), kv_of_head(), r});
            seen[owner.at()] = first_element();
        }
        cache_.end();
        cache_.keep(*decode_, 0, std::array<int32_t, 1>{0});
        stream_->synchronize();
        return seen;
    }

  private:
    Tensor matrix(int64_t rows) const { return rows_.tensor(DType::kF32, {rows, kDim}); }
    Tensor out(int64_t rows) const { return out_.tensor(DType::kF32, {rows, kDim}); }
    Tensor kv_of_head() const { return kv_of_head_.tensor(DType::kI32, {1}); }
    void fill(int64_t rows, float value) {
        std::vector<float> from(static_cast<size_t>(rows * kDim), value);
        stream_->copy(matrix(rows), HostTensor(from.data(), DType::kF32, {rows, kDim}));
        stream_->synchronize();
    }
    float first_element() {
        std::array<float, kDim> to{};
        stream_->copy(HostTensor(to.data(), DType::kF32, {1, kDim}), out(1));
        stream_->synchronize();
        return to[0];
    }
    RowsView prompt(int64_t first, int64_t rows) {
        std::vector<int32_t> all(static_cast<size_t>(3 * kPrefillRows + kMaxRows));
        for (int64_t r = 0; r < rows; ++r) {
            all[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
            all[static_cast<size_t>(2 * kPrefillRows + r)] = static_cast<int32_t>(first);
        }
        const auto n = static_cast<int64_t>(all.size());
        const Tensor device = integers_.tensor(DType::kI32, {n});
        stream_->copy(device, HostTensor(all.data(), DType::kI32, {n}));
        stream_->synchronize();
        auto* ancestors = static_cast<int32_t*>(device.data()) + 3 * kPrefillRows;
        return {.slots = device.slice_rows(0, rows),
                .sequences = device.slice_rows(kPrefillRows, rows),
                .cached = device.slice_rows(2 * kPrefillRows, rows),
                .ancestors = Tensor(ancestors, DType::kI32, {1, kMaxRows}),
                .max_slots = first + rows};
    }

    static constexpr KernelLimits limits(int64_t rows) {
        return {.max_rows = rows, .max_k = 16, .max_n = 16, .heads = 1, .head_dim = kDim};
    }
    std::unique_ptr<Device> device_ = open_device("cpu");
    std::unique_ptr<Stream> stream_ = device_->make_stream("compute");
    std::unique_ptr<Kernels> decode_ = make_kernels(*device_, *stream_, Phase::kDecode, limits(kMaxRows)),
                             prefill_ = make_kernels(*device_, *stream_, Phase::kPrefill, limits(kPrefillRows));
    FullCache cache_;
    Buffer<Space::kDevice> rows_{*device_, kPrefillRows*kDim * sizeof(float)},
        out_{*device_, kPrefillRows*kDim * sizeof(float)},
        integers_{*device_, (3 * kPrefillRows + kMaxRows) * sizeof(int32_t)}, kv_of_head_{*device_, sizeof(int32_t)};
};

const std::vector<bool> kMixed = {false, true, false};

TEST(Passes, TheLastPassOverALayerIsWhatIsKept) {
    PlainRows rows(kMixed);
    constexpr int64_t kTokens = 1300;
    rows.cache().begin_prefill(0, kTokens);
    for (const float value : {1.0f, 2.0f, 3.0f}) {
        for (OwnerIndex owner; owner.i < kOwners; ++owner) rows.write_pass(owner, 0, kTokens, value);
    }
    rows.cache().end();

    for (const float seen : rows.decode(3)) EXPECT_FLOAT_EQ(seen, 3);
}

TEST(Passes, APassMayFollowOneOverTheSameLayerAtOnce) {
    PlainRows rows(kMixed);
    constexpr int64_t kTokens = 1300;
    rows.cache().begin_prefill(0, kTokens);
    for (OwnerIndex owner; owner.i < kOwners; ++owner) {
        for (const float value : {1.0f, 2.0f}) rows.write_pass(owner, 0, kTokens, value);
    }
    rows.cache().end();

    for (const float seen : rows.decode(2)) EXPECT_FLOAT_EQ(seen, 2);
}

TEST(Passes, AReadingPassSeesWhatTheOneBeforeWrote) {
    PlainRows rows(kMixed);
    constexpr int64_t kTokens = 900;
    rows.cache().begin_prefill(0, 300);
    for (OwnerIndex owner; owner.i < kOwners; ++owner) rows.write_pass(owner, 0, 300, 4);
    rows.cache().end();

    rows.cache().begin_prefill(0, kTokens - 300);
    for (const float value : {1.0f, 4.0f}) {
        for (const int64_t owner : {0, 2, 1}) {
            rows.write_pass(OwnerIndex(owner), 300, kTokens - 300, value);
            EXPECT_FLOAT_EQ(rows.read_pass(OwnerIndex(owner), kTokens), (300 * 4 + 600 * value) / 900);
        }
        EXPECT_FLOAT_EQ(rows.read_pass(OwnerIndex(0), kTokens), (300 * 4 + 600 * value) / 900);
    }
    rows.cache().end();
    for (const float seen : rows.decode(4)) EXPECT_FLOAT_EQ(seen, 4);
}

/// Records which tiles are complete, and whether their bytes can be reached at that moment.
class Notes final : public KvObserver {
  public:
    explicit Notes(std::vector<std::string>& lines) : lines_(lines) {}
    void complete(Kernels&, OwnerIndex owner, int64_t sequence, const LayerKv& kv, const TileRange& tiles) override {
        for (int64_t t = tiles.first; t < tiles.end; ++t) {
            const int64_t address =
                static_cast<const int64_t*>(kv.tiles.data())[sequence * kv.tiles.dim(1) + t - kv.first_tile];
            lines_.push_back(fmt::format("{}:{}{}", owner, t, address == 0 ? " nowhere" : ""));
        }
    }

  private:
    std::vector<std::string>& lines_;
};

TEST(Passes, AFollowerHearsOfEveryTileWhenItIsComplete) {
    for (const std::vector<bool>& on_chip : {kMixed, std::vector<bool>{true, true, true}}) {
        std::vector<std::string> heard;
        Notes notes(heard);
        PlainRows rows(on_chip);
        rows.cache().add_observer(notes);
        rows.cache().begin_prefill(0, 766);
        for (OwnerIndex owner; owner.i < kOwners; ++owner) rows.write_pass(owner, 0, 766, 1);
        rows.cache().end();
        EXPECT_THAT(heard, testing::ElementsAre("0:0", "0:1", "1:0", "1:1", "2:0", "2:1"));

        heard.clear();
        rows.decode(1);
        EXPECT_THAT(heard, testing::IsEmpty());
        rows.decode(1);
        EXPECT_THAT(heard, testing::ElementsAre("0:2", "1:2", "2:2"));

        heard.clear();
        rows.cache().truncate(0, 767);
        rows.decode(1);
        EXPECT_THAT(heard, testing::ElementsAre("0:2", "1:2", "2:2"));

        heard.clear();
        rows.cache().begin_prefill(0, 300);
        for (OwnerIndex owner; owner.i < kOwners; ++owner) rows.write_pass(owner, 768, 300, 1);
        rows.cache().end();
        EXPECT_THAT(heard, testing::ElementsAre("0:3", "1:3", "2:3"));
    }
}

}  // namespace
}  // namespace trireme::test
