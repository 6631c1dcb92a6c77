#pragma once
/// TreeShape: the shape of a proposed token tree: how many children each node gets (Chen et al., Sequoia, 2024).
/// TreeDrafter fills it with tokens.

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// Nodes in order of depth, then of their parents; siblings are adjacent, in the order in which they are drawn. Node 0
/// is the sequence's last token, which is not proposed.
struct TreeShape {
    struct Node {
        int32_t first_child = 0, children = 0;  // index of the first child in `nodes`; number of children
        bool operator==(const Node&) const = default;
    };
    std::vector<Node> nodes;

    int64_t proposed() const { return static_cast<int64_t>(nodes.size()) - 1; }
    /// Number of proposed nodes that have children.
    int64_t parents() const;
    /// Depth of the deepest node; node 0 has depth 0.
    int64_t depth() const;
    /// Number of nodes with children at each depth, from node 0 on: the rows of the forwards that draft the tree.
    std::vector<int64_t> forwards() const;
};

/// Probabilities that a node's first, second, ... child is accepted. Sequoia measured them, for a model that drafts for
/// itself with a part of its KV cache; TriForce's tree search uses them.
inline constexpr double kSequoiaAcceptance[] = {0.9169, 0.0463, 0.0147, 0.0069, 0.0049, 0.0026};

/// Returns the tree of at most `size` proposed nodes, none deeper than `depth`, with the most accepted tokens on
/// average. `acceptance`: probability that a node's first, second, ... child is accepted, positive and falling. Its
/// length is the most children of a node.
TreeShape best_tree(std::span<const double> acceptance, int64_t size, int64_t depth);

}  // namespace trireme
