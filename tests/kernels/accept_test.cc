// accept(): kernels/acceptance.h over the distributions of logits, on every backend, against probabilities in f64.

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

using Distribution = std::vector<double>;

constexpr double kClose = 1e-5;  // error of a probability: f32 exponentials and logits are off by about 1e-6
const SamplingParams kOff = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};

/// A proposed token, its parent node, the row of q that it was sampled from (-1: a point mass), and the uniform that
/// decides.
struct Node {
    int64_t token = 0, parent = -1, q_row = -1;
    double u = 0;
};
struct Result {
    std::vector<int32_t> stays;
    int32_t next = -1;
    bool operator==(const Result&) const = default;
};

float log_of(double p) {
    if (std::isnan(p)) return std::nanf("");
    return p > 0 ? static_cast<float>(std::log(p)) : -std::numeric_limits<float>::infinity();
}

/// Rows of logits on the backend, followed by padding, [parts, padded, cols], and the distributions of the rows.
class Rows {
  public:
    Rows(Machine& m, const std::vector<Distribution>& distributions, const SamplingParams& params, int64_t parts)
        : rows_(static_cast<int64_t>(distributions.size())),
          vocab_(static_cast<int64_t>(distributions[0].size())),
          cols_((vocab_ + parts - 1) / parts + (parts > 1 ? 2 : 0)),
          parts_(parts),
          padded_(rows_ + 3),
          in_(DType::kF32, parts * padded_, cols_),
          distributions_(DType::kI64, rows_, kRowDistributionWords) {
        for (int64_t part = 0; part < parts; ++part) {
            for (int64_t r = 0; r < rows_; ++r) {
                for (int64_t c = 0; c < cols_; ++c) {
                    const int64_t id = part * cols_ + c;
                    in_.at<float>(part * padded_ + r, c) =
                        id < vocab_ ? log_of(distributions[static_cast<size_t>(r)][static_cast<size_t>(id)])
                                    : std::nanf("");
                }
            }
        }
        m->sample({}, logits(), vocab_, {}, rule_of(params), distributions_.tensor());
    }
    Tensor logits() { return Tensor(in_.tensor().data(), DType::kF32, Shape{parts_, padded_, cols_}); }
    Tensor distributions() { return distributions_.tensor(); }
    int64_t vocab() const { return vocab_; }
    const RowDistribution* distribution(int64_t r) {
        return static_cast<const RowDistribution*>(distributions_.tensor().data()) + r;
    }
    LogitsRow row(int64_t r) {
        return {static_cast<const float*>(in_.tensor().data()) + r * cols_, cols_, padded_ * cols_};
    }

  private:
    int64_t rows_, vocab_, cols_, parts_, padded_;
    Operand in_, distributions_;
};

/// p: the verifier's distributions after the last token of the sequence, then after each node.
Result accepted(const std::vector<Distribution>& p, const std::vector<Distribution>& q, const std::vector<Node>& nodes,
                double draw, const SamplingParams& params = kOff, int64_t parts = 1) {
    Machine m;
    const auto n = static_cast<int64_t>(nodes.size());
    Rows target(m, p, params, parts), drafts(m, q.empty() ? p : q, params, 1);
    // One more proposal, which would be accepted, follows the last one.
    Operand proposals(DType::kI64, n + 2, kProposalWords),
        out = Operand::ids(std::vector<int32_t>(nodes.size() + 2, -7));
    for (int64_t i = -1; i <= n; ++i) {
        Proposal x{.uniform = i < 0 ? static_cast<uint64_t>(fraction_of(draw)) : 0};
        if (i >= 0 && i < n) {
            const Node& node = nodes[static_cast<size_t>(i)];
            x = {.token = node.token, .parent = node.parent, .uniform = static_cast<uint64_t>(fraction_of(node.u))};
            if (node.q_row >= 0) x.distribution = drafts.distribution(node.q_row), x.row = drafts.row(node.q_row);
        }
        for (int64_t w = 0; w < kProposalWords; ++w) {
            proposals.at<int64_t>(i + 1, w) =
                std::bit_cast<std::array<int64_t, kProposalWords>>(x)[static_cast<size_t>(w)];
        }
    }
    // Another problem, whose refused proposals leave other weights in the kernel's scratch memory.
    Rows other(m, std::vector<Distribution>(3, {p[0].rbegin(), p[0].rend()}), params, parts);
    Operand refused(DType::kI64, 3, kProposalWords), ignored = Operand::ids({-7, -7, -7, -7});
    const auto most = static_cast<uint64_t>(fraction_of(1 - 0x1p-53));
    const std::array<Proposal, 3> points = {Proposal{}, {.token = 0, .uniform = most}, {.token = 1, .uniform = most}};
    std::memcpy(&refused.at<int64_t>(0, 0), points.data(), sizeof(points));
    Result result;
    const int orders = emulated() ? 4 : 1;  // in which the emulation runs a block's threads
    for (int order = 0; order < orders; ++order) {
        for (int i = 0; i < 2; ++i) {  // two, so that the emulation's order of threads changes from run to run
            m->accept(ignored.vector(), other.logits(), other.distributions(), refused.tensor(), other.vocab());
        }
        m->accept(out.vector(), target.logits(), target.distributions(), proposals.tensor().first_rows(n + 1),
                  target.vocab());
        m.stream->synchronize();

        EXPECT_TRUE(out.intact());
        Result now{.stays = {}, .next = out.at<int32_t>(1, 0)};
        for (int64_t i = 0; i < out.at<int32_t>(0, 0); ++i) now.stays.push_back(out.at<int32_t>(2 + i, 0));
        EXPECT_TRUE(order == 0 || now == result) << "order " << order;
        result = now;
    }
    return result;
}

/// The uniform in the middle of the interval that selects id `i`, for weights in the order of ids.
double drawing(const Distribution& w, size_t i) {
    const double all = std::accumulate(w.begin(), w.end(), 0.0);
    const double before = std::accumulate(w.begin(), w.begin() + static_cast<std::ptrdiff_t>(i), 0.0);
    return (before + w[i] / 2) / all;
}

TEST(Accept, KeepsAProposalWithItsProbability) {
    const std::vector<Distribution> p = {{0.1, 0.2, 0.3, 0.4}, {0.25, 0.25, 0.25, 0.25}}, q = {{0.4, 0.3, 0.2, 0.1}};
    for (const int64_t parts : {1, 2, 3}) {
        for (int64_t x = 0; x < 4; ++x) {
            const auto i = static_cast<size_t>(x);
            const double keep = std::min(1.0, p[0][i] / q[0][i]);
            const double draw = drawing(p[1], 2);
            EXPECT_EQ(accepted(p, q, {{x, -1, 0, keep - kClose}}, draw, kOff, parts), (Result{{0}, 2})) << x;
            if (keep == 1) continue;
            EXPECT_TRUE(accepted(p, q, {{x, -1, 0, keep + kClose}}, draw, kOff, parts).stays.empty()) << x;
        }
    }
}

TEST(Accept, SamplesTheResidualAfterARejection) {
    const std::vector<Distribution> p = {{0.1, 0.2, 0.3, 0.4}, {1, 0, 0, 0}}, q = {{0.4, 0.25, 0.2, 0.15}};
    const Distribution residual = {0, 0, 0.1, 0.25};
    for (const size_t i : {2, 3}) {
        const double all = 0.35, begin = i == 2 ? 0 : 0.1 / all, end = i == 2 ? 0.1 / all : 1;
        for (const double u : {begin == 0 ? 0 : begin + kClose, drawing(residual, i), end - kClose}) {
            EXPECT_EQ(accepted(p, q, {{0, -1, 0, 0.99}}, u), (Result{{}, static_cast<int32_t>(i)}));
        }
    }
}

TEST(Accept, DrawsTheBonusWithoutProposals) {
    const Distribution p = {0.1, 0, 0.5, 0.4};
    for (const size_t i : {0, 2, 3}) {
        EXPECT_EQ(accepted({p}, {}, {}, drawing(p, i)), (Result{{}, static_cast<int32_t>(i)}));
    }
}

TEST(Accept, AppliesTheFiltersToBothDistributions) {
    SamplingParams top2 = kOff;
    top2.top_k = 2;  // p: {0, 0, 3/7, 4/7}, q: {4/7, 3/7, 0, 0}
    const std::vector<Distribution> p = {{0.1, 0.2, 0.3, 0.4}, {0.1, 0.2, 0.3, 0.4}}, q = {{0.4, 0.3, 0.2, 0.1}};
    EXPECT_EQ(accepted(p, q, {{1, -1, 0, 0}}, 3 / 7.0 - kClose, top2), (Result{{}, 2}));
    EXPECT_EQ(accepted(p, q, {{1, -1, 0, 0}}, 3 / 7.0 + kClose, top2), (Result{{}, 3}));
    SamplingParams squared = kOff;
    squared.temperature = 0.5;  // token 1: 4/30 by p, 9/30 by q
    EXPECT_EQ(accepted(p, q, {{1, -1, 0, 4.0 / 9 - kClose}}, 0, squared).stays.size(), 1u);
    EXPECT_EQ(accepted(p, q, {{1, -1, 0, 4.0 / 9 + kClose}}, 0, squared).stays.size(), 0u);
}

TEST(Accept, GreedilyKeepsTheLargestAlone) {
    SamplingParams greedy = kOff;
    greedy.temperature = 0;
    const std::vector<Distribution> p = {{0.1, 0.5, 0.4}, {0.4, 0.4, 0.2}};
    for (const double u : {0.0, 0.5, 1 - 0x1p-53}) {
        EXPECT_EQ(accepted(p, {}, {{1, -1, -1, u}}, u, greedy), (Result{{0}, 0}));  // ties: the lowest id
        EXPECT_EQ(accepted(p, {}, {{2, -1, -1, u}}, u, greedy), (Result{{}, 1}));
    }
}

TEST(Accept, APointMassStaysWithItsProbability) {
    const std::vector<Distribution> p = {{0.3, 0.7}, {0.5, 0.5}};
    EXPECT_EQ(accepted(p, {}, {{0, -1, -1, 0.3 - kClose}}, 0.2), (Result{{0}, 0}));
    EXPECT_EQ(accepted(p, {}, {{0, -1, -1, 0.3 + kClose}}, 0.2), (Result{{}, 1}));
}

TEST(Accept, WalksAChainAndStopsAtTheFirstRefusal) {
    const Distribution flat = {0.25, 0.25, 0.25, 0.25}, never = {0, 0.5, 0.5, 0};
    const std::vector<Node> chain = {{1, -1, 0, 0.9}, {2, 0, 0, 0.9}, {0, 1, 0, 0}, {3, 2, 0, 0}};
    EXPECT_EQ(accepted({flat, flat, never, flat, flat}, {flat}, chain, 0.1), (Result{{0, 1}, 1}));
    EXPECT_EQ(accepted({flat, flat, flat, flat, flat}, {flat}, chain, 0.9), (Result{{0, 1, 2, 3}, 3}));
}

// Weights of earlier siblings are excluded from the distribution that the next sibling was sampled from, and from the
// residual after them.
TEST(Accept, SiblingsAreTriedInOrderOverTheResidual) {
    const Distribution p = {0.1, 0.2, 0.3, 0.4}, q = {0.4, 0.3, 0.2, 0.1};
    const std::vector<Distribution> all(4, p);
    // Token 0 is rejected: the residual is {0, 0, 0.1, 0.3} / 0.4. Then token 1, from {0, 0.3, 0.2, 0.1} / 0.6, is
    // never accepted.
    // The residual of the residual is {0, 0, 0.25 - 1/3 < 0, 0.75 - 1/6}: only token 3 is left.
    EXPECT_EQ(accepted(all, {q}, {{0, -1, 0, 0.26}, {1, -1, 0, 0}, {2, 1, 0, 0}}, 0.01), (Result{{}, 3}));
    // Token 2 as the second sibling is accepted with probability 0.25 / (1/3) = 0.75.
    EXPECT_EQ(accepted(all, {q}, {{0, -1, 0, 0.26}, {2, -1, 0, 0.75 - kClose}, {3, 1, 0, 0}}, 0.05),
              (Result{{1, 2}, 0}));
    EXPECT_EQ(accepted(all, {q}, {{0, -1, 0, 0.26}, {2, -1, 0, 0.75 + kClose}, {3, 1, 0, 0}}, 0.5), (Result{{}, 3}));
    // As the third sibling, after 0 and 1, p is {3: 1} and q is {2: 2/3, 3: 1/3}: token 2 is never accepted.
    EXPECT_EQ(accepted(all, {q}, {{0, -1, 0, 0.26}, {1, -1, 0, 0}, {2, -1, 0, 0}}, 0.5), (Result{{}, 3}));
}

// After a rejection, the middle of an id's interval in the residual selects this id.
TEST(Accept, KeepsTheVerifiersDistributionOverALargeVocabulary) {
    const int64_t vocab = emulated() ? 700 : 5000;
    Distribution p, q;
    for (int64_t i = 0; i < vocab; ++i) {
        p.push_back(static_cast<double>(1 + i * 7919 % 101));
        q.push_back(static_cast<double>(1 + i * 104729 % 97));
    }
    const double p_all = std::accumulate(p.begin(), p.end(), 0.0), q_all = std::accumulate(q.begin(), q.end(), 0.0);
    Distribution residual;
    for (size_t i = 0; i < p.size(); ++i) residual.push_back(std::max(0.0, p[i] / p_all - q[i] / q_all));
    const double left = std::accumulate(residual.begin(), residual.end(), 0.0);
    int64_t refused = -1;
    for (size_t i = 0; i < p.size() && refused < 0; ++i) {
        if (p[i] / p_all < 0.5 * q[i] / q_all) refused = static_cast<int64_t>(i);
    }
    for (const size_t at : {size_t{3}, p.size() / 3, p.size() - 2}) {
        size_t i = at;
        while (residual[i] < 0.1 / static_cast<double>(vocab)) --i;
        const double u = drawing(residual, i);
        ASSERT_GT(residual[i] / left, 4 * kClose / static_cast<double>(vocab));
        EXPECT_EQ(accepted({p, p}, {q}, {{refused, -1, 0, 0.75}}, u, kOff, 3), (Result{{}, static_cast<int32_t>(i)}));
    }
}

TEST(Accept, EndsTheStreamWhereARowHasNoDistribution) {
    Machine m;
    EXPECT_THROW(
        {
            Rows rows(m, {{0.5, std::nan("")}}, kOff, 1);
            m.stream->synchronize();
        },
        Error);
}

}  // namespace
}  // namespace trireme::test
