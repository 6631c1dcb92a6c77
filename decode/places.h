#pragma once
/// Places: batch slots, each of which decodes a continuation in one sequence of a model. A forward computes one token
/// of each. Used by `batch` (BatchSideBySide) and by parallel samples (-np, side_by_side.h). The caller puts prompts
/// into the sequences and draws first tokens.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/continuation.h"
#include "decode/sampling.h"
#include "model/level.h"

namespace trireme {

/// Sampling inputs of a continuation: its token i depends on these, on i, and on the tokens before it.
struct Draws {
    SamplingParams sampling;
    uint64_t seed = 0;
    uint32_t sample = 0;
};

class Places {
  public:
    /// Called by begin(), step() or stop() when a continuation has ended and its slot is vacant; `id` is the one that
    /// was passed to begin().
    using Ended = std::function<void(int64_t id, Continuation text)>;

    /// Sequences 0 .. n - 1 of `model` are used by this object alone; `model` must outlive it. Errors: Exit::kInternal
    /// if the model has fewer.
    Places(Level& model, int64_t n, Ended ended);

    /// Returns the first vacant slot, whose index is also that of its sequence; none if all are in use. The sequence
    /// still holds the tokens of the slot's last continuation: the caller truncates it.
    std::optional<int> vacant() const;
    /// Whether all slots are vacant.
    bool empty() const;
    /// Begins a continuation in the vacant slot `place`, whose sequence holds the prompt. `id`, at least 0, identifies
    /// it for `Ended`. `first` is its first token, which has already been drawn. The continuation may end at once.
    void begin(int place, int64_t id, const Draws& draws, std::unique_ptr<ContinuationBuilder> text, int32_t first);
    /// Computes the last token of every continuation and draws its next one, in forwards of at most kMaxRows rows.
    /// Stores the drawn tokens in `round` in slot order; without continuations `round` is empty. Blocks until they are
    /// drawn. Errors: as Level::sample.
    void step(std::vector<int32_t>& round);
    /// Ends every continuation as interrupted (StopReason::kInterrupted).
    void stop();

    int64_t tokens() const { return tokens_; }           // number of tokens that step() has drawn
    int64_t forwards() const { return forwards_; }       // number of forwards of step()
    uint64_t read_bytes() const { return read_bytes_; }  // weights and KV that these forwards read on this rank

  private:
    struct Place {
        int64_t id = -1;  // -1: vacant
        Draws draws;
        std::unique_ptr<ContinuationBuilder> text;
        int32_t last = 0;    // the last token, not computed yet
        uint32_t round = 0;  // DrawKey::round of the next draw: the index of its token
    };
    void forward(std::vector<int32_t>& round);
    void draw();
    void end(Place& place);

    Level& model_;
    Ended ended_;
    std::vector<Place> places_;
    int64_t tokens_ = 0, forwards_ = 0;
    uint64_t read_bytes_ = 0;
    // Scratch of one forward.
    std::vector<Row> rows_;
    std::vector<Place*> computed_;
    std::vector<double> uniforms_;
    std::vector<int32_t> drawn_;
};

}  // namespace trireme
