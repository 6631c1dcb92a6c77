#pragma once
/// Speculate: a verifying level of speculative decoding. In each round an inner proposer drafts tokens, and a model
/// verifies them. The output has the model's distribution (DESIGN section 2, "One chain"; kernels/acceptance.h). It is
/// again a proposer, so chains can have any length.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decode/branched_chain.h"
#include "decode/decode_state.h"
#include "decode/draft_distributions.h"
#include "decode/gamma_controller.h"
#include "decode/proposer.h"
#include "decode/sampling.h"
#include "runtime/random.h"

namespace trireme {

/// Statistics of one verifying level.
struct SpeculationStats {
    int64_t rounds = 0;                  // verified proposals, also empty ones
    int64_t asked = 0, off = 0;          // GammaController's choices: sum of gammas; rounds with gamma 0
    int64_t proposed = 0, accepted = 0;  // tokens; of a chain with siblings: the chain's, and all
    int64_t siblings = 0, rescued = 0;   // a chain's siblings that were proposed; those of them that were accepted
    // Host time for proposals; for their verification. Parallel sequences each count the forward that they share.
    uint64_t draft_ns = 0, verify_ns = 0;
    std::array<int64_t, kMaxRows> proposed_at = {};  // by depth in the proposal, from 0
    std::array<int64_t, kMaxRows> accepted_at = {};
    bool branched = false;  // some proposal was not a chain

    double accept_rate() const;  // of the proposed tokens
    double accept_len() const;   // tokens per round, the verifier's own included
    /// alpha_of() these counts; none for trees, or if nothing was proposed.
    std::optional<double> alpha() const;
    double draft_ms() const;   // per round
    double verify_ms() const;  // per round
    SpeculationStats operator-(const SpeculationStats& before) const;
    SpeculationStats& operator+=(const SpeculationStats& more);
};

/// Outcome of one round: numbers of tokens, at most 63.
/// As SpeculationStats counts them.
struct RoundStats {
    uint8_t proposed = 0, accepted = 0;
};

/// Full record of one round (Options::keeps_rounds): numbers of tokens. begin_ns is a time of trace::now(); draft_ns
/// and verify_ns are durations.
struct KeptRound {
    uint32_t sample = 0;
    int64_t asked = 0, proposed = 0, accepted = 0;
    int64_t length = 0;  // of the sequence after the round, prompt included; an inner level may be rolled back later
    uint64_t begin_ns = 0, draft_ns = 0, verify_ns = 0;
};

class Speculate final : public Decoder {
  public:
    /// Settings in which an inner level differs from the outermost.
    struct Options {
        const char* verifier = "full";  // its name in reports
        uint32_t level = 0;             // its number in the chain (DrawKey)
        int64_t wanted = 1;             // propose() repeats rounds until it has this many tokens, or there is no room
        DraftDistributions* held = nullptr;  // keeps this level's distributions for the outer verifier; null: none
        /// Gamma controller, used by this object alone; receives every outcome. Null: it drafts up to the limit.
        GammaController* gamma = nullptr;
        int64_t longest = kMaxRows;  // most tokens of the proposer's drafts, without siblings
        /// Number of siblings of each drafted token (BranchedChain). GammaController::kAutoSiblings: `gamma` decides.
        int64_t siblings = 0;
        bool keeps_rounds = false;  // records rounds for take_kept_rounds()
        int sequence = 0;           // of the verifier
    };
    /// `inner` proposes, `verifier` verifies; `inner` and sequence `sequence` of `verifier` are used by this object
    /// alone. Errors: Exit::kConfig for sampling parameters out of range.
    Speculate(Proposer& inner, Level& verifier, const SamplingParams& sampling, uint64_t seed, const Options& options);
    Speculate(Proposer& inner, Level& verifier, const SamplingParams& sampling, uint64_t seed)
        : Speculate(inner, verifier, sampling, seed, Options{}) {}

    const char* name() const override { return name_.c_str(); }
    Level& target() override { return text_.level(); }
    int sequence() const override { return text_.sequence(); }
    const SamplingParams& sampling() const override { return sampling_; }
    const SpeculationStats& stats() const { return stats_; }
    /// Outcomes of all rounds that stats() counts, in order.
    const std::vector<RoundStats>& rounds() const { return rounds_; }
    /// Returns the rounds since the last call, of all sequences; none unless Options::keeps_rounds is set.
    std::vector<KeptRound> take_kept_rounds() { return std::exchange(kept_, {}); }
    /// Digest of all rounds since begin(): tokens requested, proposed and accepted, and the token that followed them.
    /// Ranks that decode the same sequence have equal digests.
    uint64_t digest() const { return digest_; }

    void prefill(std::span<const int32_t> prompt, const Progress& progress) override;
    void adopt(std::span<const int32_t> prompt) override;
    void read_on(std::span<const int32_t> text, const Progress& progress) override;
    void begin(uint32_t sample) override;
    void widen(int64_t siblings) override { widened_ = siblings; }
    /// A chain of at most `limit` tokens, those that the level has verified and its own, and their siblings.
    std::span<const Proposed> propose(int64_t limit) override;
    int64_t draft(int64_t limit) override;
    void append_rows(RoundRows& all) override;
    std::span<const Proposed> settle(const RoundResult& result) override;
    void resolve(std::span<const int32_t> path, int32_t next) override;
    void rewind(int64_t n, int32_t next) override;
    void commit() override;
    void state(Archive& ar) override;

  private:
    void first_token();
    int64_t draft_round(int64_t limit);
    void settle_round(const RoundResult& result);
    uint64_t draw(Purpose purpose, size_t node) const;
    enum class Origin : uint8_t { kAccepted, kResidual, kOther, kSibling };
    void collect(int32_t token, int64_t row, Origin origin);
    void collect_round(const Logits::Accepted& answer, int64_t first, int64_t end);
    std::span<const int32_t> draw_siblings(int64_t end);
    std::span<const Proposed> ask(int64_t most);
    void count(std::span<const Proposed> proposed, std::span<const int32_t> accepted);
    void digest(std::span<const Proposed> proposed, const Logits::Accepted& answer);

    Proposer& inner_;
    DecodeState text_;
    SamplingParams sampling_;
    uint64_t seed_;
    Options options_;
    uint32_t sample_ = 0, round_ = 0;
    int64_t asked_for_ = 0;  // tokens requested in the last round
    uint64_t digest_ = 0;
    std::vector<int32_t> digested_;  // the data of one round
    std::string name_;
    SpeculationStats stats_;
    std::vector<RoundStats> rounds_;
    std::vector<KeptRound> kept_;
    RoundRows alone_;  // scratch of propose()
    // The round between draft() and settle().
    DrawKey key_;
    std::span<const Proposed> proposed_;
    uint64_t begin_ns_ = 0, drafted_ns_ = 0;
    std::vector<Proposal> proposals_;
    std::vector<int32_t> path_;
    std::vector<int64_t> places_;  // of the round's tokens: the logits' rows that give them
    int64_t widened_ = 0;          // siblings of each collected token (widen)
    BranchedChain collected_;
    std::vector<int32_t> accepted_;  // copy of the verifier's answer
    std::vector<double> uniforms_;   // of siblings
    std::vector<int32_t> ends_;
    std::vector<Origin> origins_;  // per token since the last commit()
    int64_t missed_ = 0;           // siblings that were rejected since the last commit()
    bool asks_first_ = true;       // no proposal was requested since the last commit()
    bool asked_ = false;           // the first request since then yielded tokens
};

}  // namespace trireme
