#include <limits>

#include "tests/kernels/kv_harness.h"

namespace trireme::test {
namespace {

TEST(KvAppend, RoundsIntoTheTileOfEachPosition) {
    on_every_target([] {
        for (const DType k_type : kKvTypes) {
            for (const DType v_type : kKvTypes) {
                Machine m(Phase::kPrefill);
                const int64_t dim = head_dim_for(24, k_type, v_type);
                Kv kv({3, dim, k_type, v_type}, 2, 3);
                Operand k = Operand(DType::kF32, 300, kv.width(), 4).randomize(1, 1e-4);  // f16 subnormals among them
                Operand v = Operand(DType::kF32, 300, kv.width(), 1).randomize(2, 100);

                append_all(m, kv, 1, k, v);

                const Rows want_k = stored(k, k_type), want_v = stored(v, v_type);
                for (int64_t p = 0; p < 300; ++p) {
                    for (int64_t c = 0; c < kv.width(); ++c) {
                        ASSERT_EQ(kv.element(1, p, c / dim, c % dim, false), want_k(p, c)) << p << " " << c;
                        ASSERT_EQ(kv.element(1, p, c / dim, c % dim, true), want_v(p, c)) << p << " " << c;
                    }
                }
            }
        }
    });
}

// `change` reports how far new rows are from the stored ones, after rounding. A call only raises it.
TEST(KvAppend, ReportsWhatItChanges) {
    on_every_target([] {
        for (const DType k_type : kKvTypes) {
            for (const DType v_type : kKvTypes) {
                Machine m(Phase::kPrefill);
                Kv kv({3, head_dim_for(72, k_type, v_type), k_type, v_type}, 1, 2);
                Operand k = Operand(DType::kF32, 300, kv.width()).randomize(1);
                Operand v = Operand(DType::kF32, 300, kv.width()).randomize(2);
                append_all(m, kv, 0, k, v);
                const Rows old_k = stored(k, k_type), old_v = stored(v, v_type);
                Operand change(DType::kF32, 300, 2);
                for (int64_t r = 0; r < 300; ++r) {
                    for (int64_t c = 0; c < 2; ++c) change.set(r, c, r == 7 ? 99 : 0);
                    if (r % 3 == 0) continue;  // these rows are unchanged
                    for (int64_t c = 0; c < kv.width(); ++c) k.set(r, c, k.get(r, c) * static_cast<double>(r % 5));
                    v.set(r, r % kv.width(), static_cast<double>(r));
                }
                RowSet rows(300);
                for (int64_t r = 0; r < 300; ++r) rows.set(r, 0, r, {0});
                m->kv_append(kv.view(), k.tensor(), v.tensor(), rows.view(300), change.tensor());
                m.stream->synchronize();

                const Rows new_k = stored(k, k_type), new_v = stored(v, v_type);
                for (int64_t r = 0; r < 300; ++r) {
                    float most[2] = {r == 7 ? 99.0F : 0.0F, r == 7 ? 99.0F : 0.0F};
                    for (int64_t c = 0; c < kv.width(); ++c) {
                        const auto apart = [](double a, double b) {
                            return std::fabs(static_cast<float>(a) - static_cast<float>(b));
                        };
                        most[0] = std::fmax(most[0], apart(new_k(r, c), old_k(r, c)));
                        most[1] = std::fmax(most[1], apart(new_v(r, c), old_v(r, c)));
                    }
                    ASSERT_EQ(change.get(r, 0), static_cast<double>(most[0])) << r;
                    ASSERT_EQ(change.get(r, 1), static_cast<double>(most[1])) << r;
                }
            }
        }
    });
}

// f16 caches clamp: an infinity would give NaN in rows that do not see it. A NaN comes from the model, and is stored.
TEST(KvWrites, SaturateInF16Alone) {
    const double inf = std::numeric_limits<double>::infinity(), most = 65504;
    const double given[] = {1e6, -1e6, inf, -inf, 65519, -65519, 65520, 65504, 65488, std::nan(""), 1, -1};
    const double f16s[] = {most, -most, most, -most, most, -most, most, most, 65472, std::nan(""), 1, -1};
    on_every_target([&] {
        for (const auto& [k_type, v_type] :
             {std::pair{DType::kF16, DType::kBF16}, {DType::kBF16, DType::kF16}, {DType::kF16, DType::kF32}}) {
            Machine prefill(Phase::kPrefill), decode;
            Kv kv({1, 40, k_type, v_type}, 1, 1);
            const LayerKv layer = kv.view();
            Operand x = Operand(DType::kF32, 1, 40).randomize(9);  // whole vectors of every width, and a remainder
            for (int64_t i = 0; i < 40; ++i) x.set(0, i, given[static_cast<size_t>(i) % std::size(given)]);

            append_all(prefill, kv, 0, x, x);
            stage_all(decode, layer, x.tensor(), x.tensor());

            for (int64_t i = 0; i < 40; ++i) {
                for (const bool value : {false, true}) {
                    const DType type = value ? v_type : k_type;
                    const double got = kv.element(0, 0, 0, i, value);
                    const double staged = kv.staged_element(0, 0, i, value);
                    const double want = type == DType::kF16 ? f16s[static_cast<size_t>(i) % std::size(given)]
                                                            : reference::rounded(x.get(0, i), type);
                    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << name_of(type) << " " << i;
                    EXPECT_TRUE(staged == got || (std::isnan(staged) && std::isnan(got))) << name_of(type) << " " << i;
                }
            }
        }
    });
}

// A block of q8_0 has one scale: a NaN makes it NaN, what is too large saturates, what is too small for a scale is
// zero.
TEST(KvWrites, QuantiseBlockByBlock) {
    const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
    on_every_target([&] {
        for (const int64_t dim : {32, 64, 96, 128, 256}) {
            Machine prefill(Phase::kPrefill), decode;
            Kv kv({3, dim, DType::kQ8_0, DType::kQ8_0}, 1, 2);
            Operand x = Operand(DType::kF32, 40, kv.width(), 4).randomize(12);
            for (int64_t i = 0; i < kv.width(); ++i) {
                for (int64_t r = 8; r < 40; ++r)
                    x.set(r, i, x.get(r, i) * std::pow(10.0, static_cast<double>(r) / 2 - 14));
                x.set(0, i, 0);
            }
            const double odd[] = {nan, inf, -inf, 3e38, -8.4e6, 8.3e6, 1e-45, 127, 254};
            for (size_t i = 0; i < std::size(odd); ++i)
                x.set(static_cast<int64_t>(i) % 7 + 1, static_cast<int64_t>(i), odd[i]);
            append_all(prefill, kv, 0, x, x);
            stage_all(decode, kv.view(), x.tensor(), x.tensor());

            EXPECT_TRUE(kv.staged_k.intact() && kv.staged_v.intact());
            const Rows want = stored(x, DType::kQ8_0);
            for (int64_t r = 0; r < 40; ++r) {
                for (int64_t c = 0; c < kv.width(); ++c) {
                    for (const bool value : {false, true}) {
                        for (const double got : {kv.element(0, r, c / dim, c % dim, value),
                                                 kv.staged_element(r, c / dim, c % dim, value)}) {
                            ASSERT_TRUE(got == want(r, c) || (std::isnan(got) && std::isnan(want(r, c))))
                                << "heads of " << dim << ", row " << r << " column " << c << ": " << got << ", want "
                                << want(r, c);
                        }
                    }
                }
            }
        }
    });
}

TEST(KvStage, RoundsLikeAppendAndKeepMovesTheRows) {
    on_every_target([] {
        for (const DType type : kKvTypes) {
            Machine m;
            const int64_t dim = head_dim_for(40, type, type), width = 2 * dim;
            Kv kv({2, dim, type, type}, 2, 2);
            const LayerKv layer = kv.view();
            Operand k = Operand(DType::kF32, 5, width, 3).randomize(3), v = Operand(DType::kF32, 5, width).randomize(4);
            Operand kept(DType::kI32, 3, 3);
            const int32_t moves[3][3] = {{4, 255, 0}, {0, 256, 0}, {2, 0, 1}};
            for (int64_t i = 0; i < 9; ++i) kept.at<int32_t>(i / 3, i % 3) = moves[i / 3][i % 3];

            stage_all(m, layer, k.tensor(), v.tensor());
            m->kv_keep({&layer, 1}, kept.tensor());
            m.stream->synchronize();

            EXPECT_TRUE(kv.staged_k.intact() && kv.staged_v.intact());
            for (const auto& [row, position, sequence] : moves) {
                for (int64_t c = 0; c < width; ++c) {
                    ASSERT_EQ(kv.element(sequence, position, c / dim, c % dim, false), stored(k, type)(row, c));
                    ASSERT_EQ(kv.element(sequence, position, c / dim, c % dim, true), stored(v, type)(row, c));
                }
            }
        }
    });
}

// More layers than one launch of the GPU's kernel takes.
TEST(KvKeep, MovesTheRowsOfEveryLayer) {
    on_every_target([] {
        constexpr size_t kLayers = 131;
        Machine m;
        std::vector<std::unique_ptr<Kv>> stores;
        std::vector<LayerKv> layers;
        Operand kept(DType::kI32, 2, 3);
        const int32_t moves[2][3] = {{1, 255, 0}, {0, 3, 0}};
        for (int64_t i = 0; i < 6; ++i) kept.at<int32_t>(i / 3, i % 3) = moves[i / 3][i % 3];
        Operand k = Operand(DType::kF32, 2, kLayers * 8).randomize(7),
                v = Operand(DType::kF32, 2, kLayers * 8).randomize(8);
        for (size_t l = 0; l < kLayers; ++l) {
            stores.push_back(std::make_unique<Kv>(KvLayout{1, 8, DType::kF32, DType::kF32}, 1, 1));
            layers.push_back(stores.back()->view());
            const auto column = static_cast<int64_t>(l) * 8;
            stage_all(m, layers.back(), k.tensor().slice_cols(column, 8), v.tensor().slice_cols(column, 8));
        }

        m->kv_keep(layers, kept.tensor());
        m.stream->synchronize();

        for (size_t l = 0; l < kLayers; ++l) {
            for (const auto& [row, position, sequence] : moves) {
                for (int64_t i = 0; i < 8; ++i) {
                    const auto column = static_cast<int64_t>(l) * 8 + i;
                    ASSERT_EQ(stores[l]->element(sequence, position, 0, i, false), k.get(row, column)) << "layer " << l;
                    ASSERT_EQ(stores[l]->element(sequence, position, 0, i, true), v.get(row, column)) << "layer " << l;
                }
            }
        }
    });
}

TEST(KvKeep, RefusesLayersThatAreNotLaidOutAlike) {
    Machine m;
    Kv kv({1, 8, DType::kF16, DType::kF16}, 2, 2), wide({1, 16, DType::kF16, DType::kF16}, 2, 2),
        longer({1, 8, DType::kF16, DType::kF16}, 2, 3);
    Operand kept(DType::kI32, 1, 3);
    LayerKv later = kv.view();
    later.first_tile = 1;
    for (const LayerKv& other : {wide.view(), longer.view(), later}) {
        const LayerKv layers[] = {kv.view(), other};
        EXPECT_THROW(m->kv_keep(layers, kept.tensor()), Error);
    }
}

TEST(KvKeep, RefusesRowsThatAreNotStagedAndPositionsWithoutATile) {
    struct Case {
        int32_t row, position, sequence;
        const char* words;
    };
    for (const Case& c :
         {Case{64, 3, 0, "row 64"}, Case{-1, 3, 0, "row -1"}, Case{0, 512, 0, "no tile holds slot 512 of sequence 0"},
          Case{0, -1, 1, "no tile holds slot -1 of sequence 1"}, Case{63, 3, 2, "no tile holds slot 3 of sequence 2"},
          Case{63, 3, -1, "no tile holds slot 3 of sequence -1"}}) {
        Machine m;
        Kv kv({1, 8, DType::kF16, DType::kF16}, 2, 2);
        const LayerKv layer = kv.view();
        Operand kept(DType::kI32, 1, 3);
        kept.at<int32_t>(0, 0) = c.row;
        kept.at<int32_t>(0, 1) = c.position;
        kept.at<int32_t>(0, 2) = c.sequence;

        m->kv_keep({&layer, 1}, kept.tensor());

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

        EXPECT_TRUE(refused(m, "kv_append: no tile holds slot " + std::to_string(position) + " of sequence " +
                                   std::to_string(sequence)));
    }
}

TEST(KvWrites, RefuseRowsThatAreTooLongToCount) {
    constexpr int64_t kHeads = kMostRowElements / 8 + 1;
    Machine m, prefill(Phase::kPrefill);
    const auto operand = [&](DType type, const Shape& shape) { return Tensor(&m, type, shape); };
    const Tensor k = operand(DType::kF32, {1, kHeads * 8}), staged = operand(DType::kF16, {kHeads, kMaxRows, 8});
    const LayerKv kv = {{kHeads, 8, DType::kF16, DType::kF16}, operand(DType::kI64, {1, 1}), staged, staged};
    RowSet rows(1);

    EXPECT_TRUE(refused([&] { m->kv_stage(kv, k, k, rows.view(1)); }, "kv_stage: rows of 1073741832 elements"));
    EXPECT_TRUE(refused([&] { prefill->kv_append(kv, k, k, rows.view(1)); }, "kv_append: rows of 1073741832"));
}

TEST(KvStage, RefusesMoreRowsThanAreStaged) {
    Machine m;
    Kv kv({1, 8, DType::kF16, DType::kF16}, 1, 1);
    Operand k(DType::kF32, kMaxRows + 1, 8);

    RowSet rows(kMaxRows + 1);

    EXPECT_THROW(m->kv_stage(kv.view(), k.tensor(), k.tensor(), rows.view(1)), Error);
}

// Rows are staged after those of earlier forwards: each goes to the index of its last ancestor.
TEST(KvStage, PutsARowWhereItsLastAncestorSays) {
    on_every_target([] {
        Machine m;
        Kv kv({2, 8, DType::kF32, DType::kF16}, 1, 1);
        Operand k = Operand(DType::kF32, 3, 16).randomize(5), v = Operand(DType::kF32, 3, 16).randomize(6);
        RowSet rows(3);
        rows.set(0, 0, 100, {0, 5});
        rows.set(1, 0, 100, {0, 5, 63});
        rows.set(2, 0, 7, {2});

        m->kv_stage(kv.view(), k.tensor(), v.tensor(), rows.view(200));
        m.stream->synchronize();

        const Rows want_v = stored(v, DType::kF16);
        for (int64_t head = 0; head < 2; ++head) {
            for (int64_t staged = 0; staged < kMaxRows; ++staged) {
                const int64_t row = staged == 5    ? 0
                                    : staged == 63 ? 1
                                    : staged == 2  ? 2
                                                   : -1,
                              at = head * kMaxRows + staged;
                for (int64_t i = 0; i < 8; ++i) {
                    if (row >= 0) {
                        ASSERT_EQ(kv.staged_k.get(at, i), k.get(row, head * 8 + i)) << staged;
                        ASSERT_EQ(kv.staged_v.get(at, i), want_v(row, head * 8 + i)) << staged;
                    } else {
                        ASSERT_TRUE(std::isnan(kv.staged_k.get(at, i)) && std::isnan(kv.staged_v.get(at, i))) << staged;
                    }
                }
            }
        }
    });
}

TEST(KvStage, LeavesPaddingRowsOut) {
    Machine m;
    Kv kv({1, 8, DType::kF16, DType::kF16}, 1, 1);
    Operand k = Operand(DType::kF32, 2, 8).randomize(5);
    RowSet rows(2);
    rows.set(0, 0, 3, {1});
    rows.set(1, kPadding, 0, {});

    m->kv_stage(kv.view(), k.tensor(), k.tensor(), rows.view(4));
    m.stream->synchronize();

    for (int64_t staged = 0; staged < kMaxRows; ++staged) {
        EXPECT_EQ(std::isnan(kv.staged_k.get(staged, 0)), staged != 1) << staged;
        EXPECT_EQ(std::isnan(kv.staged_v.get(staged, 0)), staged != 1) << staged;
    }
}

TEST(KvStage, RefusesRowsWithoutAPlace) {
    const auto refuses = [](int32_t slot, int32_t cached, int32_t ancestor, const char* words) {
        Machine m;
        Kv kv({1, 8, DType::kF16, DType::kF16}, 1, 1);
        Operand k = Operand(DType::kF32, 1, 8).randomize(1);
        RowSet rows(1);
        rows.set(0, 0, cached, {ancestor});
        rows.slots.at<int32_t>(0, 0) = slot;
        m->kv_stage(kv.view(), k.tensor(), k.tensor(), rows.view(600));
        return refused(m, words);
    };
    EXPECT_TRUE(refuses(9, 10, 0, "stands at 9 after 10"));
    EXPECT_TRUE(refuses(74, 10, 0, "stands at 74 after 10"));
    EXPECT_TRUE(refuses(10, 10, 64, "64"));
    EXPECT_TRUE(refuses(10, 10, -1, "-1"));
}

}  // namespace
}  // namespace trireme::test
