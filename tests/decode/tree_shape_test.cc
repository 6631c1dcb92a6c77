// The tree with the most expected accepted nodes: compared with all small trees, and with Sequoia's own recursion.

#include "decode/tree_shape.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace trireme::test {
namespace {

using Chances = std::vector<double>;

const Chances kSequoia(std::begin(kSequoiaAcceptance), std::end(kSequoiaAcceptance));

std::vector<int32_t> children(const TreeShape& tree) {
    std::vector<int32_t> n;
    for (const TreeShape::Node& node : tree.nodes) n.push_back(node.children);
    return n;
}

/// Mean number of accepted nodes.
double value(const TreeShape& tree, const Chances& p) {
    std::vector<double> comes(tree.nodes.size(), 1);
    double sum = 0;
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
        for (int32_t c = 0; c < tree.nodes[i].children; ++c) {
            const auto child = static_cast<size_t>(tree.nodes[i].first_child + c);
            comes[child] = comes[i] * p[static_cast<size_t>(c)];
            sum += comes[child];
        }
    }
    return sum;
}

/// The largest value over every way to add nodes below earlier ones.
double best_of_all(const Chances& p, int64_t size, int64_t depth) {
    struct Node {
        double comes;
        int64_t depth;
        size_t children;
    };
    std::vector<Node> nodes = {{1, 0, 0}};
    double best = 0;
    const std::function<void(double)> grow = [&](double sum) {
        best = std::max(best, sum);
        if (static_cast<int64_t>(nodes.size()) > size) return;
        for (size_t i = 0, n = nodes.size(); i < n; ++i) {
            if (nodes[i].depth == depth || nodes[i].children == p.size()) continue;
            const double comes = nodes[i].comes * p[nodes[i].children++];
            nodes.push_back({comes, nodes[i].depth + 1, 0});
            grow(sum + comes);
            nodes.pop_back();
            --nodes[i].children;
        }
    };
    grow(0);
    return best;
}

/// Sequoia's recursion: n nodes are distributed over a node's children from the k-th on, with `depth` levels left. Some
/// nodes form the subtree of the k-th child; the rest is distributed over its later siblings.
double by_recursion(const Chances& p, int64_t size, int64_t depth) {
    const auto n = static_cast<size_t>(size) + 1;
    std::vector<double> above(n, 0);  // by number of nodes, with one level less
    for (int64_t d = 0; d < depth; ++d) {
        std::vector<double> siblings(n, 0);
        for (size_t k = p.size(); k-- > 0;) {
            std::vector<double> with(n, 0);
            for (size_t m = 1; m < n; ++m) {
                for (size_t own = 1; own <= m; ++own) {
                    with[m] = std::max(with[m], p[k] * (1 + above[own - 1]) + siblings[m - own]);
                }
            }
            siblings = with;
        }
        above = siblings;
    }
    return above[static_cast<size_t>(size)];
}

void expect_tree(const TreeShape& tree, int64_t size, int64_t depth) {
    ASSERT_FALSE(tree.nodes.empty());
    EXPECT_LE(tree.proposed(), size);
    EXPECT_LE(tree.depth(), depth);
    int32_t next = 1, parents = 0;
    for (size_t i = 0; i < tree.nodes.size(); ++i) {
        const TreeShape::Node& n = tree.nodes[i];
        EXPECT_EQ(n.first_child, next) << "node " << i;
        next += n.children;
        parents += i > 0 && n.children > 0;
    }
    EXPECT_EQ(next, static_cast<int32_t>(tree.nodes.size()));
    EXPECT_EQ(tree.parents(), parents);
}

TEST(TreeShape, HasTheNodesTheWalkComesToMostOften) {
    // The best nodes have 0.5, 0.4, 0.25, then 0.2 below either of the first two; the first one wins.
    const Chances p = {0.5, 0.4};
    EXPECT_EQ(children(best_tree(p, 1, 9)), (std::vector<int32_t>{1, 0}));
    EXPECT_EQ(children(best_tree(p, 2, 9)), (std::vector<int32_t>{2, 0, 0}));
    EXPECT_EQ(children(best_tree(p, 3, 9)), (std::vector<int32_t>{2, 1, 0, 0}));
    EXPECT_EQ(children(best_tree(p, 4, 9)), (std::vector<int32_t>{2, 2, 0, 0, 0}));
    EXPECT_EQ(children(best_tree(p, 4, 1)), (std::vector<int32_t>{2, 0, 0}));
}

TEST(TreeShape, OfOneChildIsAChain) {
    for (const int64_t depth : {1, 5, 63}) {
        const TreeShape chain = best_tree(Chances{0.9}, 63, depth);
        EXPECT_EQ(chain.proposed(), depth);
        EXPECT_EQ(chain.depth(), depth);
        EXPECT_EQ(chain.parents(), depth - 1);
    }
}

// Drafting takes one forward per depth with parents, and one row per parent.
TEST(TreeShape, IsDraftedLevelByLevel) {
    for (const int64_t size : {1, 5, 20, 63}) {
        for (int64_t depth = 1; depth <= 8; ++depth) {
            const TreeShape tree = best_tree(kSequoia, size, depth);
            const std::vector<int64_t> rows = tree.forwards();
            EXPECT_EQ(static_cast<int64_t>(rows.size()), tree.depth());
            EXPECT_EQ(rows.front(), 1);
            int64_t all = 0;
            for (const int64_t n : rows) all += n;
            EXPECT_EQ(all, tree.parents() + 1) << size << " " << depth;
        }
    }
    EXPECT_EQ(best_tree(Chances{0.5, 0.4, 0.3}, 6, 2).forwards(), (std::vector<int64_t>{1, 2}));
}

TEST(TreeShape, IsTheBestOfAllSmallOnes) {
    for (const Chances& p : {Chances{0.9, 0.05, 0.02}, {0.5, 0.3, 0.2}, {0.4, 0.4, 0.1}, {1, 1}, {0.3}, kSequoia}) {
        for (int64_t size = 1; size <= 6; ++size) {
            for (int64_t depth = 1; depth <= size; ++depth) {
                const TreeShape tree = best_tree(p, size, depth);
                expect_tree(tree, size, depth);
                EXPECT_NEAR(value(tree, p), best_of_all(p, size, depth), 1e-12) << size << " " << depth;
            }
        }
    }
}

TEST(TreeShape, IsWorthWhatSequoiasRecursionFinds) {
    for (const Chances& p : {kSequoia, {0.6, 0.15, 0.08, 0.04, 0.02}, {0.3, 0.3, 0.2, 0.1}}) {
        for (const int64_t size : {8, 31, 32, 63}) {
            for (const int64_t depth : {1, 2, 4, 6, 12, 63}) {
                const TreeShape tree = best_tree(p, size, depth);
                expect_tree(tree, size, depth);
                EXPECT_NEAR(value(tree, p), by_recursion(p, size, depth), 1e-9) << size << " " << depth;
            }
        }
    }
}

TEST(TreeShape, HoldsTheChainOfItsDepth) {
    for (const int64_t size : {32, 63}) {
        const TreeShape tree = best_tree(kSequoia, size, 6);
        EXPECT_EQ(tree.proposed(), size);
        EXPECT_EQ(tree.depth(), 6);
        int32_t at = 0;
        for (int i = 0; i < 6; ++i) {
            ASSERT_GT(tree.nodes[static_cast<size_t>(at)].children, 0) << i;
            at = tree.nodes[static_cast<size_t>(at)].first_child;
        }
    }
}

TEST(TreeShape, RefusesChancesThatAreNone) {
    for (const Chances& p : {Chances{}, {0.1, 0.2}, {1.5}, {0.5, 0}}) EXPECT_THROW(best_tree(p, 4, 2), Error);
}

}  // namespace
}  // namespace trireme::test
