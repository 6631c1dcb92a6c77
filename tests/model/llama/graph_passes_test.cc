// Graphs of forwards that take several passes over layers that read later ones.

#include <gtest/gtest.h>

#include "tests/model/llama/sharing_story.h"

namespace trireme::test {
namespace {

/// One rank, which counts the sums that the host enqueues: a graph that is launched again enqueues none.
class CountingComm final : public Comm {
  public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    const char* name() const override { return "counting"; }
    [[noreturn]] void abort(Exit) override { fail(Exit::kInternal, "aborted"); }
    int64_t sums() const { return sums_; }

  private:
    void do_all_reduce(Stream&, const Tensor&) override { ++sums_; }
    void do_all_gather(Stream& stream, const Tensor& out, const Tensor& part) override {
        stream.copy(Tensor(out.data(), part.dtype(), part.shape()), part);
    }
    std::vector<std::string> do_gather(const std::string& mine) override { return {mine}; }

    int64_t sums_ = 0;
};

/// `rows` rows after the level's sequence: the first `chain` form a chain, the others have no parent.
std::vector<Row> rows_with_chain(const Level& level, size_t rows, size_t chain, std::span<const int32_t> ids) {
    std::vector<Row> all;
    for (size_t r = 0; r < rows; ++r) {
        const auto parent = static_cast<int32_t>(r < chain ? r : 0) - 1;
        all.push_back({.token = ids[r],
                       .position = static_cast<int32_t>(level.length()) + (parent < 0 ? 0 : parent + 1),
                       .parent = parent});
    }
    return all;
}

// The graphs for a number of rows do not grow with the number of passes: a pass that another one follows is a graph,
// launched once per such pass. So the host enqueues layers once op by op, once for the graphs of one pass, and once for
// those of several: the repeated pass, and the rest.
TEST(GraphPasses, OneGraphServesAnyNumberOfPasses) {
    constexpr size_t kRows = 7;
    for (const char* map : {"0_3_3_3_4", "2_2_2_4_4", "4_4_4_4_4", "0_1_2_2_2"}) {
        const HashedShape shape = {.layer_map = map, .layers = 5, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.45};
        const LayerMap layers = HashedModel(shape).config().layer_map;
        int64_t repeated = 0;
        for (const LayerBlock& b : layers.blocks()) repeated += b.iterated ? b.end.i - b.first.i - 1 : 0;
        const std::vector<int32_t> ids = hashed_ids(5 + kRows, shape.vocab, 5);
        CountingComm comm;
        SelfComm self;
        Loaded model(shape, comm), plain_model(shape, self);
        LevelOptions options = sharing_options(exactly(4), {}, 64);
        const auto level = model.level(options);
        options.graphs = false;
        const auto plain = plain_model.level(options);
        for (Level* l : {level.get(), plain.get()}) l->prefill(0, std::span(ids).first(5));
        int64_t asked = 0;
        const auto forward = [&](size_t chain) {
            const std::vector<Row> rows = rows_with_chain(*level, kRows, chain, std::span(ids).last(kRows));
            const int64_t before = comm.sums();
            level->forward(rows);
            asked += comm.sums() - before;
            plain->forward(rows);
            const Matrix<float> got = level->logits().host().as<float>(), want = plain->logits().host().as<float>();
            for (int64_t r = 0; r < got.rows; ++r) {
                EXPECT_EQ(std::vector(got.row(r), got.row(r) + got.cols),
                          std::vector(want.row(r), want.row(r) + want.cols))
                    << map << ", a chain of " << chain << ", row " << r;
            }
        };

        forward(1);
        const int64_t sums_of_a_layer = 2, once = layers.layers() * sums_of_a_layer;
        EXPECT_EQ(asked, once) << map;
        for (const size_t chain : {1, 1, 2, 3, 7, 4, 2, 1}) forward(chain);

        EXPECT_EQ(asked, once + once + (layers.upward() ? once + repeated * sums_of_a_layer : 0)) << map;
    }
}

}  // namespace
}  // namespace trireme::test
