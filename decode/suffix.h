#pragma once
/// Suffix: a proposer by suffix lookup (--spec suffix): it proposes what followed the sequence's last tokens elsewhere,
/// in the prompt, in the output or in a corpus of earlier outputs (SuffixDecoding, arXiv 2411.04975). It needs no
/// model. The longer the part that it finds, the more tokens it proposes, so that a quotation is soon proposed in full.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "decode/proposer.h"
#include "decode/spec_costs.h"
#include "decode/suffix_automaton.h"

namespace trireme {

class Suffix final : public Proposer {
  public:
    /// Proposes at most `gamma` tokens a round. `corpus`: earlier outputs, which several proposers may share, with
    /// a negative id between two of them; null: none.
    explicit Suffix(int64_t gamma, std::shared_ptr<const SuffixAutomaton> corpus = nullptr);

    /// The sequence's end must occur elsewhere with at least this many tokens.
    static constexpr int32_t kShortest = 2;
    /// Without costs, a proposal ends before a token whose estimated chance of acceptance is less than this.
    static constexpr double kLeastChance = 0.1;

    /// The estimated chance that a text and the sequence agree in the token after a part of `length` tokens: Laplace's
    /// rule of succession. Multiplied along a proposal, and with its followers' shares, it was right for 240,000
    /// proposed tokens of 16 texts of the demo model, half of them sampled at 0.8: estimates of 0.04, 0.25, 0.45, 0.65,
    /// 0.85 and 0.95 came true in 0.04, 0.16, 0.37, 0.71, 0.91 and 0.97 of all cases.
    static double agrees(int64_t length) { return static_cast<double>(length) / static_cast<double>(length + 1); }

    /// From now on it proposes as many tokens as minimise milliseconds per token, none where that is fastest.
    void set_costs(const LevelCosts& verifier);
    bool chooses() const override { return !verify_ms_.empty(); }

    const char* name() const override { return "suffix"; }
    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void begin(uint32_t sample) override;
    /// A chain without distributions; empty if the sequence's end occurs nowhere else.
    std::span<const Proposed> propose(int64_t limit) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void commit() override;
    void state(Archive& ar) override;

  private:
    using Match = SuffixAutomaton::Match;
    /// A text that is searched, and its match of the sequence's committed end.
    struct Searched {
        const SuffixAutomaton* text = nullptr;
        Match match;
    };
    void append(int32_t token);
    void restart();
    Match found(const Searched& in) const;
    void follow(const SuffixAutomaton& text, Match match, int64_t most);
    size_t best_length() const;

    // The output begins with the prompt's last tokens, so that parts across the border are found.
    static constexpr size_t kBorder = 64;

    int64_t gamma_;
    std::shared_ptr<const SuffixAutomaton> corpus_;
    SuffixAutomaton prompt_, output_;
    std::array<Searched, 3> searched_;            // of equally long parts, the first one's counts
    std::vector<int32_t> prompt_tokens_, final_;  // of the prompt; generated and final
    std::vector<int32_t> open_;                   // generated, not final: rewind() may remove them
    std::vector<Proposed> proposal_;
    std::vector<double> chances_;    // of each of its tokens
    std::vector<double> verify_ms_;  // of a forward, by rows; empty: no costs
};

}  // namespace trireme
