#pragma once
/// A proposer whose proposals a model checks: what comes out has the model's law alone (DESIGN section 2, "One chain";
/// kernels/acceptance.h). It is a proposer again, so chains of any length are made of it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/draft_length.h"
#include "decode/held_laws.h"
#include "decode/proposer.h"
#include "decode/sampling.h"
#include "decode/text_level.h"

namespace trireme {

/// What one level has checked so far.
struct SpeculationStats {
    int64_t rounds = 0;                              // forwards that checked proposals
    int64_t asked = 0, off = 0;                      // what DraftLength chose: tokens; rounds with none
    int64_t proposed = 0, accepted = 0;              // tokens
    uint64_t draft_ns = 0, verify_ns = 0;            // waiting for proposals; for what becomes of them
    std::array<int64_t, kMaxRows> proposed_at = {};  // by depth in the proposal, from 0
    std::array<int64_t, kMaxRows> accepted_at = {};
    bool branched = false;  // some proposal was no chain

    double accept_rate() const;  // of proposed tokens
    double accept_len() const;   // tokens that a round gave, the verifier's own included
    /// alpha_of() these counts; none for trees, and where nothing was proposed.
    std::optional<double> alpha() const;
    double draft_ms() const;  // of a round
    double verify_ms() const;
    SpeculationStats operator-(const SpeculationStats& before) const;
};

/// What became of one proposal: tokens, 63 at most.
struct RoundStats {
    uint8_t proposed = 0, accepted = 0;
};

/// All of a round, for those who ask for it (Options::keeps_rounds). Tokens; times as trace::now() has them.
struct KeptRound {
    uint32_t sample = 0;
    int64_t asked = 0, proposed = 0, accepted = 0;
    int64_t length = 0;  // of the text behind the round, prompt included; of an inner level it may be taken back
    uint64_t begin_ns = 0, drafted_ns = 0, verified_ns = 0;
};

class Speculate final : public Decoder {
  public:
    /// What sets an inner one apart from the outermost.
    struct Options {
        const char* verifier = "full";  // what reports call it
        uint32_t level = 0;             // its number in the chain (DrawKey)
        int64_t length = 1;             // tokens that a proposal has at least, unless there is no room: rounds go on
        HeldLaws* held = nullptr;       // of `verifier`'s laws, for whoever checks what is proposed; null: nobody does
        /// How much `inner` is asked for, and is told what became of it; its own. Null: as much as there is room for.
        DraftLength* lengths = nullptr;
        bool keeps_rounds = false;  // for take_kept_rounds()
    };
    /// `inner` proposes, `verifier` checks; both are this object's own while it lives. Errors: Exit::kConfig for
    /// sampling parameters out of range.
    Speculate(Proposer& inner, Level& verifier, const SamplingParams& sampling, uint64_t seed, const Options& options);
    Speculate(Proposer& inner, Level& verifier, const SamplingParams& sampling, uint64_t seed)
        : Speculate(inner, verifier, sampling, seed, Options{}) {}

    const char* name() const override { return name_.c_str(); }
    Level& target() override { return text_.level(); }
    const SpeculationStats& stats() const { return stats_; }
    /// Of every round that the stats are of, in order.
    const std::vector<RoundStats>& rounds() const { return rounds_; }
    /// All rounds since the last call, of whatever texts; none unless Options asks for them.
    std::vector<KeptRound> take_kept_rounds() { return std::exchange(kept_, {}); }
    /// Of every round since begin(): how many tokens it asked for, what was proposed, what stayed and what came behind
    /// it. Ranks that decode the same text have the same.
    uint64_t digest() const { return digest_; }

    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void adopt(std::span<const int32_t> prompt) override;
    void begin(uint32_t sample) override;
    std::span<const Proposed> propose(int64_t limit) override;
    void commit(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void settle() override;
    void state(Archive& ar) override;

  private:
    void first_token();
    void round(int64_t limit);
    enum class Origin : uint8_t { kAccepted, kResidual, kOther };
    void collect(int32_t token, int64_t row, Origin origin);
    std::span<const Proposed> ask(int64_t most);
    void count(std::span<const Proposed> proposed, std::span<const int32_t> stays);
    void digest(std::span<const Proposed> proposed, const Level::Accepted& answer);

    Proposer& inner_;
    TextLevel text_;
    SamplingParams sampling_;
    uint64_t seed_;
    Options options_;
    uint32_t sample_ = 0, round_ = 0;
    int64_t asked_for_ = 0;  // tokens, in the last round
    uint64_t digest_ = 0;
    std::vector<int32_t> digested_;  // of one round
    std::string name_;
    SpeculationStats stats_;
    std::vector<RoundStats> rounds_;
    std::vector<KeptRound> kept_;
    std::vector<Row> rows_;
    std::vector<Proposal> proposals_;
    std::vector<double> uniforms_;
    std::vector<int32_t> path_;
    std::vector<Proposed> collected_;  // a chain
    std::vector<Origin> origins_;      // of the tokens since the last settle()
    bool asks_first_ = true;           // there has been no round since then
    bool asked_ = false;               // the first one since then had proposals
};

}  // namespace trireme
