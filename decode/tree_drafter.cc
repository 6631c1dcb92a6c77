#include "decode/tree_drafter.h"

#include <algorithm>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/random.h"

namespace trireme {

TreeDrafter::TreeDrafter(const char* name, Device& device, Level& model, const SamplingParams& sampling, uint64_t seed,
                         const Options& o)
    : name_(name), text_(model), held_(device, model, o.size), sampling_(sampling), seed_(seed), level_(o.level) {
    check(o.size >= 1 && o.size < kMaxRows && o.depth >= 1, "{}: a tree of {} nodes in {} levels, want 1 to {} nodes",
          name, o.size, o.depth, kMaxRows - 1);
    for (int64_t depth = 1; depth <= std::min(o.depth, o.size); ++depth) {
        shapes_.push_back(best_tree(o.acceptance, o.size, depth));
    }
    rows_.reserve(kMaxRows);
    parents_.reserve(kMaxRows);
    next_.reserve(kMaxRows);
    uniforms_.reserve(kMaxRows);
    ends_.reserve(kMaxRows);
    staged_.reserve(kMaxRows);
    kept_.reserve(kMaxRows);
    proposal_.reserve(kMaxRows);
}

std::vector<GammaController::Draft> TreeDrafter::costs(const LevelCosts& own) const {
    std::vector<GammaController::Draft> all;
    for (const TreeShape& s : shapes_) {
        GammaController::Draft& tree = all.emplace_back();
        tree.rows = static_cast<int64_t>(s.nodes.size());
        for (const int64_t rows : s.forwards()) tree.ms += own.ms(rows);
    }
    return all;
}

void TreeDrafter::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    text_.prefill(prompt, progress);
}

void TreeDrafter::begin(uint32_t sample) {
    text_.begin();
    sample_ = sample;
    round_ = 0;
    proposal_.clear();
}

std::span<const Proposed> TreeDrafter::propose(int64_t limit) {
    const uint32_t round = round_++;
    proposal_.clear();
    staged_.clear();
    distributions_ = 0;
    // The whole shape is chosen before anything is drawn: a drawn token is never dropped.
    const TreeShape* tree = shape(limit);
    if (tree == nullptr) return {};
    int64_t rows = begin_tree();
    parents_.assign(1, {});
    for (int32_t depth = 0;; ++depth) {
        draw_children(*tree, rows, round);
        if (next_.empty()) return proposal_;
        extend(depth);
        parents_.swap(next_);
        rows = static_cast<int64_t>(parents_.size());
    }
}

/// Returns the deepest tree that fits the context and the free rows: one per pending token, one per parent. Null: none.
const TreeShape* TreeDrafter::shape(int64_t limit) const {
    const int64_t rows = text_.room() - text_.pending();
    int64_t depth = std::min({limit, static_cast<int64_t>(shapes_.size()), text_.level().context() - text_.length()});
    while (depth > 0 && shapes_[index(depth - 1)].parents() > rows) --depth;
    return depth > 0 && rows >= 0 ? &shapes_[index(depth - 1)] : nullptr;
}

/// Returns the number of rows of the current logits; the last one belongs to the sequence's last token.
int64_t TreeDrafter::begin_tree() {
    if (text_.at_prompt()) return 1;
    text_.rows_of_pending(rows_);
    text_.level().extend(rows_);
    text_.accept_rows();
    return static_cast<int64_t>(rows_.size());
}

void TreeDrafter::draw_children(const TreeShape& shape, int64_t rows, uint32_t round) {
    const int64_t before = rows - static_cast<int64_t>(parents_.size());
    ends_.assign(static_cast<size_t>(before), 0);
    uniforms_.clear();
    for (const Parent& p : parents_) {
        const TreeShape::Node& n = shape.nodes[index(p.node)];
        for (int32_t c = n.first_child; c < n.first_child + n.children; ++c) {
            uniforms_.push_back(
                uniform(seed_, {.sample = sample_, .round = round, .level = level_, .node = static_cast<uint32_t>(c)}));
        }
        ends_.push_back(static_cast<int32_t>(uniforms_.size()));
    }
    const std::span<const int32_t> ids = text_.level().logits().sample_siblings(sampling_, uniforms_, ends_);

    next_.clear();
    auto id = ids.begin();
    for (size_t i = 0; i < parents_.size(); ++i) {
        const auto [parent, node] = parents_[i];
        const TreeShape::Node& n = shape.nodes[index(node)];
        // Greedy children are point masses: nothing was drawn.
        const Distribution distribution =
            sampling_.greedy() ? Distribution() : held_.hold(distributions_++, before + static_cast<int64_t>(i));
        for (int32_t c = n.first_child; c < n.first_child + n.children; ++c, ++id) {
            if (*id < 0) continue;  // earlier siblings exhausted the distribution
            if (shape.nodes[index(c)].children > 0) {
                next_.push_back({.proposed = static_cast<int32_t>(proposal_.size()), .node = c});
            }
            proposal_.push_back({.token = *id, .parent = parent, .distribution = distribution});
            staged_.push_back(-1);
        }
    }
}

/// Computes the rows of next_. `depth` is 0 for children of the sequence's last token.
void TreeDrafter::extend(int32_t depth) {
    if (depth == 0) tip_ = text_.tip();
    rows_.clear();
    int32_t row = text_.level().cache().staged().size();
    for (const Parent& p : next_) {
        const Proposed& token = proposal_[index(p.proposed)];
        rows_.push_back({.token = token.token,
                         .position = tip_.position + depth,
                         .parent = token.parent < 0 ? tip_.parent : staged_[index(token.parent)]});
        staged_[index(p.proposed)] = row++;
    }
    text_.level().extend(rows_);
}

void TreeDrafter::resolve(std::span<const int32_t> path, int32_t next) {
    kept_.clear();
    int32_t leaf = -1;
    for (const int32_t i : path) {
        check(i >= 0 && i < static_cast<int32_t>(proposal_.size()) && leaf < 0,
              "{}: token {} of {} is accepted after {}", name_, i, proposal_.size(),
              leaf < 0 ? "others" : "one without children");
        const int32_t row = staged_[index(i)];
        if (row < 0) {
            leaf = proposal_[index(i)].token;
        } else {
            kept_.push_back(row);
        }
    }
    proposal_.clear();
    text_.accept_staged(kept_);
    if (leaf >= 0) text_.append(leaf);
    if (next >= 0) text_.append(next);
}

void TreeDrafter::rewind(int64_t n, int32_t next) {
    text_.truncate(text_.length() - n, next);
}

void TreeDrafter::commit() {
    text_.commit();
}

}  // namespace trireme
