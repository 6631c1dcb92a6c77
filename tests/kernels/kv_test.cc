#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

/// What slot `position` of a sequence holds, as f64.
double slot(Kv& kv, int64_t sequence, int64_t position, int64_t head, int64_t i, bool value) {
    const KvLayout& l = kv.layout;
    const char* tile = reinterpret_cast<const char*>(kv.table.at<int64_t>(sequence, position / kTileTokens)) +
                       (value ? l.k_bytes() : 0);
    const int64_t at = (head * kTileTokens + position % kTileTokens) * l.head_dim + i;
    switch (value ? l.v_type : l.k_type) {
        case DType::kF16:
            return static_cast<double>(static_cast<float>(reinterpret_cast<const f16*>(tile)[at]));
        case DType::kBF16:
            return static_cast<double>(static_cast<float>(reinterpret_cast<const bf16*>(tile)[at]));
        default:
            return static_cast<double>(reinterpret_cast<const float*>(tile)[at]);
    }
}

TEST(KvAppend, RoundsIntoTheTileOfEachPosition) {
    on_every_target([] {
        for (const DType k_type : kFloatTypes) {
            for (const DType v_type : kFloatTypes) {
                Machine m(Phase::kPrefill);
                Kv kv({3, 24, k_type, v_type}, 2, 3);
                Operand k = Operand(DType::kF32, 300, kv.width(), 4).randomize(1, 1e-4);  // f16 subnormals among them
                Operand v = Operand(DType::kF32, 300, kv.width(), 1).randomize(2, 100);

                append_all(m, kv, 1, k, v);

                const Rows want_k = stored(k, k_type), want_v = stored(v, v_type);
                for (int64_t p = 0; p < 300; ++p) {
                    for (int64_t c = 0; c < kv.width(); ++c) {
                        ASSERT_EQ(slot(kv, 1, p, c / 24, c % 24, false), want_k(p, c)) << p << " " << c;
                        ASSERT_EQ(slot(kv, 1, p, c / 24, c % 24, true), want_v(p, c)) << p << " " << c;
                    }
                }
            }
        }
    });
}

TEST(KvStage, RoundsLikeAppendAndKeepMovesTheRows) {
    on_every_target([] {
        for (const DType type : kFloatTypes) {
            Machine m;
            Kv kv({2, 40, type, type}, 2, 2);
            Operand k = Operand(DType::kF32, 5, 80, 3).randomize(3), v = Operand(DType::kF32, 5, 80).randomize(4);
            Operand kept(DType::kI32, 3, 3);
            const int32_t moves[3][3] = {{4, 255, 0}, {0, 256, 0}, {2, 0, 1}};
            for (int64_t i = 0; i < 9; ++i) kept.at<int32_t>(i / 3, i % 3) = moves[i / 3][i % 3];

            m->kv_stage(kv.view(), k.tensor(), v.tensor());
            m->kv_keep(kv.view(), kept.tensor());
            m.stream->synchronize();

            EXPECT_TRUE(kv.staged_k.intact() && kv.staged_v.intact());
            for (const auto& [row, position, sequence] : moves) {
                for (int64_t c = 0; c < 80; ++c) {
                    ASSERT_EQ(slot(kv, sequence, position, c / 40, c % 40, false), stored(k, type)(row, c));
                    ASSERT_EQ(slot(kv, sequence, position, c / 40, c % 40, true), stored(v, type)(row, c));
                }
            }
        }
    });
}

TEST(KvKeep, RefusesRowsThatAreNotStagedAndPositionsWithoutATile) {
    struct Case {
        int32_t row, position, sequence;
        const char* words;
    };
    for (const Case& c : {Case{64, 3, 0, "row 64"}, Case{-1, 3, 0, "row -1"},
                          Case{0, 512, 0, "no tile holds position 512 of sequence 0"},
                          Case{0, -1, 1, "no tile holds position -1 of sequence 1"},
                          Case{63, 3, 2, "no tile holds position 3 of sequence 2"},
                          Case{63, 3, -1, "no tile holds position 3 of sequence -1"}}) {
        Machine m;
        Kv kv({1, 8, DType::kF16, DType::kF16}, 2, 2);
        Operand kept(DType::kI32, 1, 3);
        kept.at<int32_t>(0, 0) = c.row;
        kept.at<int32_t>(0, 1) = c.position;
        kept.at<int32_t>(0, 2) = c.sequence;

        m->kv_keep(kv.view(), kept.tensor());

        EXPECT_TRUE(refused(m, c.words));
    }
}

TEST(KvAppend, RefusesPositionsWithoutATile) {
    for (const auto& [position, sequence] : {std::pair{512, 1}, {-1, 0}, {3, 2}, {3, -1}}) {
        Machine m(Phase::kPrefill);
        Kv kv({1, 8, DType::kF16, DType::kF16}, 2, 2);
        Operand k = Operand(DType::kF32, 1, 8).randomize(1);
        RowSet rows(1);
        rows.set(0, sequence, position, {0});

        m->kv_append(kv.view(), k.tensor(), k.tensor(), rows.view(600));

        EXPECT_TRUE(refused(m, "kv_append: no tile holds position " + std::to_string(position) + " of sequence " +
                                   std::to_string(sequence)));
    }
}

TEST(KvStage, RefusesMoreRowsThanAreStaged) {
    Machine m;
    Kv kv({1, 8, DType::kF16, DType::kF16}, 1, 1);
    Operand k(DType::kF32, kMaxRows + 1, 8);

    EXPECT_THROW(m->kv_stage(kv.view(), k.tensor(), k.tensor()), Error);
}

}  // namespace
}  // namespace trireme::test
