// Observers of a cache in forwards that take several passes over layers that read later ones.

#include <map>

#include "tests/model/llama/sharing_story.h"

namespace trireme::test {
namespace {

/// Records the queries of decode forwards that a cache reports.
struct Asked final : KvObserver {
    explicit Asked(Level& of) : level(of) { level.cache().add_observer(*this); }
    ~Asked() override { level.cache().remove_observer(*this); }
    void query(Kernels&, OwnerIndex owner, LayerIndex, const Queries& queries, const Tensor&) override {
        const Tensor& q = queries.q;
        const Buffer<Space::kHost> host(*device, static_cast<size_t>(q.rows() * q.cols()) * sizeof(float));
        const HostTensor at = host.tensor(DType::kF32, {q.rows(), q.cols()});
        for (int64_t r = 0; r < q.rows(); ++r) level.stream().copy(at.slice_rows(r, 1), q.slice_rows(r, 1));
        level.stream().synchronize();
        const Matrix<float> m = at.as<float>();
        for (int64_t r = 0; r < m.rows; ++r) {
            of_row[first + static_cast<size_t>(r)].emplace_back(owner, std::vector(m.row(r), m.row(r) + m.cols));
        }
    }
    Level& level;
    Device* device = nullptr;
    size_t first = 0;  // row of the forward
    std::map<size_t, std::vector<std::pair<OwnerIndex, std::vector<float>>>> of_row;
};

// An observer of a cache (such as a retrieval set, which selects by queries) gets the query of each row in each layer
// once. It is the query of the last pass, and equals that of the row decoded alone.
TEST(FollowedPasses, NotifyFollowersOfTheLastOne) {
    SelfComm comm;
    for (const char* map : {"0_3_3_3_4", "1_1_4_4_4", "0_0_2_2_2"}) {
        const HashedShape shape = {.layer_map = map, .layers = 5, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.45};
        const auto owners = static_cast<size_t>(HashedModel(shape).config().layer_map.owners());
        const std::vector<int32_t> ids = hashed_ids(310, shape.vocab, 9);
        Loaded model(shape, comm);
        for (const bool chip : {true, false}) {
            LevelOptions options = sharing_options(exactly(4), on_chip(std::vector<bool>(owners, chip)));
            options.graphs = false;
            std::vector<Row> rows;
            for (int32_t r = 0; r < 6; ++r) {
                rows.push_back({.token = ids[304 + static_cast<size_t>(r)], .position = 304 + r, .parent = r - 1});
            }
            const auto one_by_one = model.level(options), together = model.level(options);
            for (Level* level : {one_by_one.get(), together.get()}) level->prefill(0, std::span(ids).first(304));
            Asked alone(*one_by_one), among(*together);
            alone.device = among.device = model.device.get();
            for (const Row& row : rows) {
                one_by_one->forward(std::vector<Row>{{.token = row.token, .position = row.position}});
                one_by_one->keep(0, std::vector<int32_t>{0});
                ++alone.first;
            }

            together->forward(rows);

            ASSERT_EQ(alone.of_row.size(), rows.size());
            EXPECT_EQ(alone.of_row.at(0).size(), 5u);
            EXPECT_EQ(among.of_row, alone.of_row) << map << chip;
        }
    }
}

}  // namespace
}  // namespace trireme::test
