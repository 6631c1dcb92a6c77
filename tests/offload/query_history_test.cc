// Sums of the queries of the last kept tokens. Each query encodes its token and its owner.

#include "offload/retrieved/query_history.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/device.h"

namespace trireme::test {
namespace {

constexpr int64_t kOwners = 3, kCount = 4, kColumns = 5;

class History : public testing::Test {
  protected:
    std::unique_ptr<Device> device = open_device("cpu", {.threads = 1});
    std::unique_ptr<Stream> stream = device->make_stream("compute");
    std::unique_ptr<Kernels> op =
        make_kernels(*device, *stream, Phase::kDecode,
                     {.max_rows = kMaxRows, .max_k = 8, .max_n = 8, .heads = 1, .head_dim = kColumns});
    QueryHistory history{*device, *stream, kOwners, kCount, kColumns};

    /// Reports a forward's rows with these tokens; the tensor is a part of wider rows, as queries are.
    void observe(const std::vector<float>& tokens, int64_t first) {
        for (OwnerIndex owner; owner.i < kOwners; ++owner) {
            const std::vector<float> q = rows(tokens, owner);
            history.observe(*op, owner, tensor(q), first);
            stream->synchronize();
        }
    }
    /// Returns the sum over tokens, and checks that all columns of all owners agree.
    float sum(float token) {
        float told = -1;
        for (OwnerIndex owner; owner.i < kOwners; ++owner) {
            const std::vector<float> q = rows({token, 1e6F}, owner);
            const Tensor sum = history.sum(*op, owner, tensor(q));
            stream->synchronize();
            for (int64_t c = 0; c < kColumns; ++c) {
                const float here = static_cast<const float*>(sum.data())[c] / value(1, owner, c);
                if (told == -1) told = here;
                EXPECT_EQ(here, told) << owner.i << " " << c;
            }
        }
        return told;
    }

  private:
    static constexpr int64_t kWide = kColumns + 3;
    static float value(float token, OwnerIndex owner, int64_t column) {
        return token * static_cast<float>(1 + owner.i * kColumns + column);
    }
    static std::vector<float> rows(const std::vector<float>& tokens, OwnerIndex owner) {
        std::vector<float> q;
        for (const float token : tokens) {
            for (int64_t c = 0; c < kWide; ++c) q.push_back(c < kColumns ? value(token, owner, c) : -1);
        }
        return q;
    }
    static Tensor tensor(const std::vector<float>& q) {
        const auto n = static_cast<int64_t>(q.size()) / kWide;
        return Tensor(const_cast<float*>(q.data()), DType::kF32, {n, kWide}).slice_cols(0, kColumns);
    }
};

TEST_F(History, SumsUpTheLastKeptOnes) {
    EXPECT_EQ(sum(1), 1) << "nothing has been kept";
    observe({1, 2, 4}, 0);
    EXPECT_EQ(sum(8), 8) << "rows that are staged do not count";
    history.kept(*op, std::vector<int32_t>{0, 2});
    EXPECT_EQ(sum(8), 1 + 4 + 8);
    observe({16, 32}, 0);
    observe({64, 128}, 2);  // a tree grows
    history.kept(*op, std::vector<int32_t>{0, 2, 3});
    EXPECT_EQ(sum(256), 4 + 16 + 64 + 128 + 256) << "the last four";
    observe({1, 2, 4, 8, 16, 32}, 0);
    history.kept(*op, std::vector<int32_t>{0, 1, 2, 3, 4, 5});
    EXPECT_EQ(sum(64), 4 + 8 + 16 + 32 + 64);
    history.forget();
    EXPECT_EQ(sum(64), 64);
}

// More rounds than there are lists for copies in flight.
TEST_F(History, OfManyRounds) {
    std::vector<float> tokens(kCount, 0);
    for (int round = 0; round < 40; ++round) {
        const std::vector<float> rows = {static_cast<float>(round), static_cast<float>(round + 100)};
        observe(rows, 0);
        const std::vector<int32_t> path = round % 3 == 0 ? std::vector<int32_t>{0} : std::vector<int32_t>{0, 1};
        history.kept(*op, path);
        for (const int32_t row : path) tokens.push_back(rows[static_cast<size_t>(row)]);
        float want = 7;
        for (size_t i = tokens.size() - kCount; i < tokens.size(); ++i) want += tokens[i];
        ASSERT_EQ(sum(7), want) << round;
    }
}

}  // namespace
}  // namespace trireme::test
