#pragma once
/// Which tree of proposals is worth its nodes (Chen et al., Sequoia, 2024): how many children each node gets.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// Nodes level by level, those of a level in the order of their parents, siblings next to each other, elder ones first.
/// Node 0 is the text's last token, which is not proposed.
struct TreeShape {
    struct Node {
        int32_t first_child = 0, children = 0;
        bool operator==(const Node&) const = default;
    };
    std::vector<Node> nodes;

    int64_t proposed() const { return static_cast<int64_t>(nodes.size()) - 1; }
    /// Proposed ones that have children.
    int64_t parents() const;
    int64_t depth() const;
    /// Nodes that have children, level by level, node 0 first: the rows of the forwards that draft it.
    std::vector<int64_t> forwards() const;
};

/// How often the walk goes on at a node's first, second, ... child: Sequoia's measurement, as TriForce's tree search
/// has it, for a model that proposes to itself over a part of its keys and values.
inline constexpr double kSequoiaAcceptance[] = {0.9169, 0.0463, 0.0147, 0.0069, 0.0049, 0.0026};

/// The tree of at most `size` nodes, none deeper than `depth`, of which the most nodes are accepted on average, where a
/// node's k-th child is with the k-th of these probabilities: positive and falling, as many as a node has children at
/// most.
TreeShape best_tree(std::span<const double> acceptance, int64_t size, int64_t depth);

}  // namespace trireme
