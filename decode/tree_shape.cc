#include "decode/tree_shape.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// A node that may be added to the tree.
struct Candidate {
    double value;  // probability that the node is accepted
    int32_t parent;
    int64_t depth;
    bool operator<(const Candidate& other) const {
        // Of equal candidates the one with the earliest parent is first, so the tree is the same everywhere.
        return value != other.value ? value < other.value : parent > other.parent;
    }
};

}  // namespace

int64_t TreeShape::parents() const {
    return std::count_if(nodes.begin() + 1, nodes.end(), [](const Node& n) { return n.children > 0; });
}

int64_t TreeShape::depth() const {
    std::vector<int64_t> depth(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
        for (int32_t c = 0; c < nodes[i].children; ++c) {
            depth[index(nodes[i].first_child + c)] = depth[i] + 1;
        }
    }
    return depth.back();
}

std::vector<int64_t> TreeShape::forwards() const {
    std::vector<int64_t> rows, depth(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
        if (nodes[i].children == 0) continue;
        rows.resize(static_cast<size_t>(depth[i]) + 1);
        ++rows.back();
        for (int32_t c = 0; c < nodes[i].children; ++c) depth[index(nodes[i].first_child + c)] = depth[i] + 1;
    }
    return rows;
}

// The average is the sum over the nodes of the probability that each is accepted. That of a node is no larger than its
// parent's or its earlier sibling's. So the most probable nodes form a tree, and no tree has a larger sum. (Sequoia
// finds the same maximum by dynamic programming.)
TreeShape best_tree(std::span<const double> acceptance, int64_t size, int64_t depth) {
    check(std::ranges::is_sorted(acceptance, std::greater<>()) && !acceptance.empty() && acceptance.front() <= 1 &&
              acceptance.back() > 0,
          "tree: chances of children do not fall from 1 at most to above 0");
    struct Node {
        int64_t depth;
        double value;
        std::vector<int32_t> children;
    };
    std::vector<Node> nodes = {{.depth = 0, .value = 1, .children = {}}};
    std::priority_queue<Candidate> next;
    const auto offer_child = [&](int32_t of) {
        const Node& n = nodes[index(of)];
        if (n.depth == depth || n.children.size() == acceptance.size()) return;
        next.push({.value = n.value * acceptance[n.children.size()], .parent = of, .depth = n.depth + 1});
    };
    offer_child(0);
    while (static_cast<int64_t>(nodes.size()) <= size && !next.empty()) {
        const Candidate c = next.top();
        next.pop();
        const auto number = static_cast<int32_t>(nodes.size());
        nodes[index(c.parent)].children.push_back(number);
        nodes.push_back({.depth = c.depth, .value = c.value, .children = {}});
        offer_child(c.parent);
        offer_child(number);
    }
    TreeShape shape;
    std::vector<int32_t> order = {0};
    for (size_t i = 0; i < order.size(); ++i) {
        const std::vector<int32_t>& children = nodes[index(order[i])].children;
        shape.nodes.push_back(
            {.first_child = static_cast<int32_t>(order.size()), .children = static_cast<int32_t>(children.size())});
        order.insert(order.end(), children.begin(), children.end());
    }
    return shape;
}

}  // namespace trireme
