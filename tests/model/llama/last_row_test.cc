// Rows of a prompt whose logits are not requested end with the highest owner's keys and values (reference lckv 6.6).

#include "tests/model/llama/sharing_story.h"

namespace trireme::test {
namespace {

/// An observer that counts attended rows, and may require all rows.
struct Counting final : KvObserver {
    bool wants_all_rows() const override { return wants; }
    void attended(Kernels&, OwnerIndex, const LayerKv&, const AttentionCall& call) override { rows += call.q.rows(); }
    void query(Kernels&, OwnerIndex owner, LayerIndex, const Queries& queries, const Tensor&) override {
        EXPECT_EQ(queries.q.rows(), 1);
        asked.push_back(owner);
    }
    bool wants = false;
    int64_t rows = 0;
    std::vector<OwnerIndex> asked;
};

/// Prefills a prompt of which only the last logits are requested, and returns these.
std::vector<float> last_logits(Level& level, std::span<const int32_t> ids) {
    level.prefill(0, ids);
    const Matrix<float> m = level.logits().host().as<float>();
    EXPECT_EQ(m.rows, 1);
    return {m.row(0), m.row(0) + m.cols};
}

TEST(LastRow, IsTheTextsLastTokenInEveryKindOfMap) {
    const std::vector<int32_t> ids = hashed_ids(21, 16);
    SelfComm comm;
    for (const char* map : {"0_1_2_3_4", "0_1_1_1_1", "0_0_0_0_0", "0_0_1_0_0", "0_3_3_3_4", "0_2_2_2_2", "4_4_4_4_4",
                            "1_1_4_4_4", "1_2_0_1_2"}) {
        const HashedShape shape = {.layer_map = map, .layers = 5, .scale = 0.4};
        const auto owners = static_cast<size_t>(HashedModel(shape).config().layer_map.owners());
        SharingReference reference{HashedModel(shape)};
        const auto one = reference.read(std::span(ids).first(13), 3), two = reference.read(std::span(ids).last(8), 3);
        Loaded model(shape, comm);
        for (const bool chip : {true, false}) {
            const auto level = model.level(sharing_options(exactly(3), on_chip(std::vector<bool>(owners, chip))));
            EXPECT_LT(difference(last_logits(*level, std::span(ids).first(13)), one.back()), kTolerance) << map << chip;
            EXPECT_LT(difference(last_logits(*level, std::span(ids).last(8)), two.back()), kTolerance) << map << chip;
        }
    }
}

// An observer that needs the attention of all rows gets it; one that needs the last row's query gets that, from every
// reader in order.
TEST(LastRow, IsNotAloneWhereAFollowerRequiresAllRows) {
    const std::vector<int32_t> ids = hashed_ids(9, 16);
    const HashedShape shape = {.layer_map = "0_1_1_3", .scale = 0.4};
    SelfComm comm;
    Loaded model(shape, comm);
    for (const bool chip : {true, false}) {
        for (const bool wants : {true, false}) {
            const auto level = model.level(sharing_options({}, on_chip({chip, chip, chip})));
            Counting observer;
            observer.wants = wants;
            level->cache().add_observer(observer);
            level->prefill(0, ids);
            const auto n = static_cast<int64_t>(ids.size());
            EXPECT_EQ(observer.rows, wants ? 4 * n : 3 * n + 1);
            EXPECT_EQ(observer.asked,
                      (std::vector<OwnerIndex>{OwnerIndex(0), OwnerIndex(1), OwnerIndex(1), OwnerIndex(2)}));
            level->cache().remove_observer(observer);
        }
    }
}

}  // namespace
}  // namespace trireme::test
