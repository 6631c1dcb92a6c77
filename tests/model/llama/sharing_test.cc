// Layers that read other layers' keys and values, compared with the worked example of the reference (lckv 7.2) and with
// float64.

#include "tests/model/llama/sharing_story.h"

namespace trireme::test {
namespace {

struct Golden {
    const char* map;
    bool no_diagonal;
    std::vector<double> logits;  // of the last of the tokens below
    std::vector<int32_t> greedy;
};
const std::vector<int32_t> kTokens = {3, 14, 1, 5, 9, 2};
const Golden kGoldens[] = {
    {"0_2_2_3",
     false,
     {0.8651559, 1.2387854, 1.4684782, -1.5592327, 0.4399976, 1.5474831, -1.1374837, -0.3805492, 0.7391945, 1.7050516,
      0.0792350, 0.6897931, -0.0294053, 0.6655186, 0.8084262, -1.8984198},
     {9, 0, 2, 0, 2, 0, 2, 2}},
    {"0_2_2_3",
     true,
     {1.1146953, 1.4122709, -0.5460868, -0.1539638, -0.1284940, -1.4266260, 0.4814597, -0.3947142, 0.1053982,
      -0.0678146, -0.7829429, -0.4980052, 0.5521889, 1.1679271, 1.5786534, -1.6836825},
     {14, 14, 6, 12, 6, 1, 1, 1}},
    {"3_3_3_3",
     false,
     {1.0992248, -0.6854098, 1.7982308, -2.2108653, -0.3764761, -0.8217908, -0.6782691, -1.4326964, 0.4829184,
      -0.1455353, -0.2857631, 1.7151687, 1.3702275, -0.4159486, -0.5393557, -1.1438752},
     {2, 2, 2, 2, 12, 2, 12, 2}},
    {"0_0_2_2",
     false,
     {0.3903267, 1.0732147, 0.5101717, -0.7277075, 0.3467859, -0.5063985, 0.0106011, 0.0242382, 1.3727940, 0.5835996,
      -0.1105693, -0.0551125, -0.3127227, 0.7915240, 1.5163798, -1.7545306},
     {14, 8, 8, 8, 8, 8, 8, 8}},
    {"0_1_1_3",
     false,
     {0.3704525, -0.4342411, 2.1392296, -2.0330978, 0.8869161, 0.7387568, -1.2371301, -1.9495599, 0.9891590, 0.2253339,
      0.2585242, 1.1063794, 0.7920586, -0.1976561, 0.0004897, -1.1669725},
     {2, 2, 2, 0, 2, 2, 2, 2}},
    {"0_1_2_3",
     false,
     {1.0766072, 0.0669150, 2.1853085, -2.6542762, 0.1005688, 0.4259361, -0.8998840, -0.6914417, 1.0515627, 1.2596703,
      -0.1804240, 1.5827623, 0.7506361, 0.0389522, 0.0934663, -1.6881015},
     {2, 2, 2, 12, 5, 15, 12, 15}},
};

TEST(LayerSharing, TheReferenceSaysWhatItsExampleSays) {
    for (const Golden& g : kGoldens) {
        SharingReference reference(HashedModel({.layer_map = g.map, .no_diagonal = g.no_diagonal}));
        const auto logits = reference.decode(kTokens).back();
        for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], g.logits[i], 2e-6) << g.map << " " << i;
    }
    SharingReference a(HashedModel({.layer_map = "0_2_2_3"}));
    const auto first = a.decode(kTokens).front();
    const double wanted[] = {2.0776005, 0.2978933, -0.6732568, -0.7758903, -1.0560501, -1.1027501};
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(first[i], wanted[i], 2e-6);
    EXPECT_NEAR(a.keys(0)[0][0], 0.3215786, 2e-6);
    EXPECT_NEAR(a.keys(2)[0][2], 0.2340411, 2e-6);
    EXPECT_NEAR(a.keys(3)[0][6], -1.5420856, 2e-6);
    EXPECT_NEAR(a.values(2)[5][6], 3.2363879, 2e-6);
}

// The tokens are decoded one by one, or read with as many passes as tokens; both continue greedily.
TEST(LayerSharing, TheEngineSaysWhatTheExampleSays) {
    SelfComm comm;
    for (const Golden& g : kGoldens) {
        Loaded model({.layer_map = g.map, .no_diagonal = g.no_diagonal}, comm);
        for (const bool by_decoding : {true, false}) {
            const auto level = model.level(sharing_options(exactly(6)));
            Logits said = by_decoding ? decode(*level, kTokens) : read(*level, kTokens);
            EXPECT_LT(difference(said.back(), g.logits), 1e-5) << g.map << by_decoding;
            for (const int32_t wanted : g.greedy) {
                const auto best = static_cast<int32_t>(std::ranges::max_element(said.back()) - said.back().begin());
                EXPECT_EQ(best, wanted) << g.map << by_decoding;
                said = decode(*level, {&best, 1});
            }
        }
    }
}

// The published decoder puts a zero key before the cached ones, and drops the newest (reference lckv 6.1, D1).
TEST(LayerSharing, IsNotThePublishedDecodersMistake) {
    SelfComm comm;
    Loaded model({.layer_map = "0_2_2_3"}, comm);
    const auto level = model.level(sharing_options({}));
    EXPECT_GT(difference(decode(*level, kTokens).back(),
                         {1.3125902, 1.5080720, -0.2125060, 0.0320557, -0.5041685, -1.7433144}),
              0.1);
}

// The difference of each token from decoding, after each number of passes: the table of the reference.
TEST(LayerSharing, PassesBringOneTokenMoreEach) {
    const std::vector<std::vector<double>> errors = {
        {0, 1.30, 0.219, 0.198, 1.16, 3.43}, {0, 0, 0.774, 0.493, 1.14, 2.98}, {0, 0, 0, 2.47e-2, 0.216, 3.01},
        {0, 0, 0, 0, 2.60e-2, 1.00},         {0, 0, 0, 0, 0, 4.57e-2},         {0, 0, 0, 0, 0, 0}};
    SelfComm comm;
    Loaded model({.layer_map = "0_2_2_3"}, comm);
    const auto exact = SharingReference(HashedModel({.layer_map = "0_2_2_3"})).decode(kTokens);
    for (int64_t passes = 1; passes <= 6; ++passes) {
        const auto level = model.level(sharing_options(exactly(passes)));
        const Logits said = read(*level, kTokens);
        EXPECT_EQ(level->passes(), passes);
        for (size_t t = 0; t < kTokens.size(); ++t) {
            double most = 0;
            for (size_t i = 0; i < exact[t].size(); ++i)
                most = std::fmax(most, std::fabs(exact[t][i] - static_cast<double>(said[t][i])));
            const double wanted = errors[static_cast<size_t>(passes - 1)][t];
            EXPECT_NEAR(most, wanted, 1e-5 + wanted * 5e-3) << passes << " passes, token " << t;
        }
    }
}

TEST(LayerSharing, ChunksOfThreeAreExactAfterThreePasses) {
    SelfComm comm;
    Loaded model({.layer_map = "0_2_2_3"}, comm);
    const auto level = model.level(sharing_options(exactly(3)));
    read(*level, std::span(kTokens).first(3));
    EXPECT_LT(difference(read(*level, std::span(kTokens).last(3)).back(), kGoldens[0].logits), 1e-5);
}

TEST(LayerSharing, WindowsAreTheLastTokensItselfIncluded) {
    for (const char* map : {"0s_0s_2_2", "0_1s_1s_3s", "0_3_2s_3", "3s_3s_3s_3s", "1_3_3_3"}) {
        for (const int64_t window : {1, 2, 7, 300}) {
            HashedShape shape = {.layer_map = map, .dim = 16, .vocab = 32, .scale = 0.4, .sliding_window = window};
            const std::vector<int32_t> ids = hashed_ids(29, shape.vocab);
            SharingReference reference{HashedModel(shape)};
            const auto first = reference.read(std::span(ids).first(25), 4),
                       last = reference.decode(std::span(ids).last(4));
            SelfComm comm;
            Loaded model(shape, comm);
            const auto level = model.level(sharing_options(exactly(4)));
            const Logits one = read(*level, std::span(ids).first(25)), two = decode(*level, std::span(ids).last(4));
            for (size_t i = 0; i < one.size(); ++i)
                EXPECT_LT(difference(one[i], first[i]), kTolerance) << map << window;
            for (size_t i = 0; i < two.size(); ++i) EXPECT_LT(difference(two[i], last[i]), kTolerance) << map << window;
        }
    }
}

// Chains of proposed rows, and trees of them.
TEST(LayerSharing, SeveralRowsAreDecodedExactly) {
    const HashedShape shape = {.layer_map = "0_3_3_3_4", .layers = 5, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.45};
    const std::vector<int32_t> ids = hashed_ids(40, shape.vocab, 9);
    const std::vector<int32_t> parents = {-1, 0, 1, 1, 3, -1, 5, 2};
    SelfComm comm;
    Loaded model(shape, comm);
    for (const std::vector<bool>& owners :
         {std::vector<bool>{true, true, true}, {false, true, false}, {false, false, false}}) {
        const auto level = model.level(sharing_options(exactly(40), on_chip(owners)));
        read(*level, std::span(ids).first(30));
        std::vector<Row> rows;
        for (size_t r = 0; r < parents.size(); ++r) {
            const int32_t parent = parents[r];
            rows.push_back({.token = ids[30 + r],
                            .position = parent < 0 ? 30 : rows[static_cast<size_t>(parent)].position + 1,
                            .parent = parent});
        }
        level->forward(std::span(rows).first(5));
        Logits said;
        const auto keep = [&] {
            const Matrix<float> m = level->logits().host().as<float>();
            for (int64_t r = 0; r < m.rows; ++r) said.emplace_back(m.row(r), m.row(r) + m.cols);
        };
        keep();
        level->extend(std::span(rows).last(3));
        keep();
        for (size_t r = 0; r < rows.size(); ++r) {
            std::vector<int32_t> text(ids.begin(), ids.begin() + 30), path;
            for (int32_t at = static_cast<int32_t>(r); at >= 0; at = parents[static_cast<size_t>(at)])
                path.push_back(ids[30 + static_cast<size_t>(at)]);
            text.insert(text.end(), path.rbegin(), path.rend());
            EXPECT_LT(difference(said[r], SharingReference{HashedModel(shape)}.decode(text).back()), kTolerance) << r;
        }
    }
}

}  // namespace
}  // namespace trireme::test
