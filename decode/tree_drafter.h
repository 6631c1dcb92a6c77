#pragma once
/// A model that proposes a tree (Chen et al., Sequoia, 2024): the children of a node are drawn one by one, each from
/// what its elders leave of the node's law, at temperature 0 they are the likeliest; each level of the tree is one
/// forward.

#include <cstdint>
#include <span>
#include <vector>

#include "decode/draft_length.h"
#include "decode/held_laws.h"
#include "decode/proposer.h"
#include "decode/sampling.h"
#include "decode/text_level.h"
#include "decode/tree_shape.h"

namespace trireme {

class TreeDrafter final : public Proposer {
  public:
    struct Options {
        uint32_t level = 1;                                       // its number in the chain, above 0 (DrawKey)
        int64_t size = 32, depth = 6;                             // nodes of a tree at most, below kMaxRows; levels
        std::span<const double> acceptance = kSequoiaAcceptance;  // that the trees are made for (tree_shape.h)
    };
    /// `model` is its own. Errors: as HeldLaws, which it has `size` of.
    TreeDrafter(const char* name, Device& device, Level& model, const SamplingParams& sampling, uint64_t seed,
                const Options& options);

    /// What its trees take by their depth, where forwards of its model take `own`: one for each level.
    std::vector<DraftLength::Draft> costs(const LevelCosts& own) const;

    const char* name() const override { return name_; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    std::span<const Proposed> propose(int64_t limit) override;
    void commit(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void settle() override;
    void state(Archive& ar) override {
        ar.section(name_);
        text_.state(ar, /*tiles=*/true);
        for (uint32_t* n : {&sample_, &round_}) ar.value(*n);
    }

  private:
    /// A node that gets children: its number among the proposed ones (-1: the text's last token) and in the shape.
    struct Parent {
        int32_t proposed = -1, node = 0;
    };
    const TreeShape* shape(int64_t limit) const;
    int64_t begin_tree();
    void draw_children(const TreeShape& shape, int64_t rows, uint32_t round);
    void extend(int32_t depth);

    const char* name_;
    TextLevel text_;
    HeldLaws held_;
    SamplingParams sampling_;
    uint64_t seed_;
    uint32_t level_, sample_ = 0, round_ = 0;
    std::vector<TreeShape> shapes_;  // by depth - 1
    Row tip_ = {};
    int64_t laws_ = 0;  // held of this tree
    std::vector<Row> rows_;
    std::vector<Parent> parents_, next_;  // of the level whose logits are at hand: their last rows; of the one below
    std::vector<double> uniforms_;
    std::vector<int32_t> ends_;
    std::vector<int32_t> staged_;  // of each proposed token, its row among the level's staged ones; -1: not computed
    std::vector<int32_t> kept_;
    std::vector<Proposed> proposal_;
};

}  // namespace trireme
