#pragma once
/// TreeDrafter: a model that proposes a token tree (Chen et al., Sequoia, 2024; --spec tree), in one forward per depth.
/// Siblings are drawn without replacement from their parent's distribution; at temperature 0 they are the likeliest
/// tokens.

#include <cstdint>
#include <span>
#include <vector>

#include "decode/decode_state.h"
#include "decode/draft_distributions.h"
#include "decode/gamma_controller.h"
#include "decode/proposer.h"
#include "decode/sampling.h"
#include "decode/tree_shape.h"

namespace trireme {

class TreeDrafter final : public Proposer {
  public:
    struct Options {
        uint32_t level = 1;                                       // its number in the chain, above 0 (DrawKey)
        int64_t size = 32, depth = 6;                             // of a tree, at most; size is below kMaxRows
        std::span<const double> acceptance = kSequoiaAcceptance;  // by child, for the tree shapes (tree_shape.h)
    };
    /// `model` is used by this object alone. Errors: as DraftDistributions of `size` slots.
    TreeDrafter(const char* name, Device& device, Level& model, const SamplingParams& sampling, uint64_t seed,
                const Options& options);

    /// Returns the costs of its trees, by depth - 1, for GammaController. `own`: the costs of its model's forwards.
    std::vector<GammaController::Draft> costs(const LevelCosts& own) const;

    const char* name() const override { return name_; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    /// The deepest tree that is at most `limit` deep (a depth, not a number of tokens) and fits context and free rows.
    std::span<const Proposed> propose(int64_t limit) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    /// Removes the last n tokens of the sequence, then appends `next` unless it is -1.
    void rewind(int64_t n, int32_t next) override;
    void commit() override;
    void state(Archive& ar) override {
        ar.section(name_);
        text_.state(ar, /*tiles=*/true);
        for (uint32_t* n : {&sample_, &round_}) ar.value(*n);
    }

  private:
    /// A node that gets children: its index in the proposal (-1: the sequence's last token) and in the shape.
    struct Parent {
        int32_t proposed = -1, node = 0;
    };
    const TreeShape* shape(int64_t limit) const;
    int64_t begin_tree();
    void draw_children(const TreeShape& shape, int64_t rows, uint32_t round);
    void extend(int32_t depth);

    const char* name_;
    DecodeState text_;
    DraftDistributions held_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t level_, sample_ = 0, round_ = 0;
    std::vector<TreeShape> shapes_;  // by depth - 1
    Row tip_ = {};                   // DecodeState::tip() of this tree
    int64_t distributions_ = 0;      // slots of held_ in use for this tree
    std::vector<Row> rows_;
    std::vector<Parent> parents_, next_;  // nodes of the current logits (their last rows); nodes at the next depth
    std::vector<double> uniforms_;
    std::vector<int32_t> ends_;
    std::vector<int32_t> staged_;  // per proposed token, its staged row; -1: not computed
    std::vector<int32_t> kept_;
    std::vector<Proposed> proposal_;
};

}  // namespace trireme
