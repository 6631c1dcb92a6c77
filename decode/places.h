#pragma once
/// Batch slots: each decodes a continuation in one sequence of a model. A forward computes one token of each.

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

/// Sampling inputs of a sequence: token i depends on these, on i, and on the tokens before it.
struct Draws {
    SamplingParams sampling;
    uint64_t seed = 0;
    uint32_t sample = 0;
};

class Places {
  public:
    /// Called when a continuation has ended; `id` is the one that was passed to begin().
    using Ended = std::function<void(int64_t id, Continuation text)>;

    /// Sequences 0 .. n - 1 of `model` are used by this object alone; `model` must outlive it. Errors: Exit::kInternal
    /// if the model has fewer.
    Places(Level& model, int64_t n, Ended ended);

    /// Returns the first vacant slot, whose index is also that of its sequence; none if all are in use.
    std::optional<int> vacant() const;
    bool empty() const;
    /// Begins a continuation in a vacant slot, whose sequence holds the prompt. `first` is its first token, which has
    /// already been drawn. The continuation may end at once.
    void begin(int place, int64_t id, const Draws& draws, std::unique_ptr<ContinuationBuilder> text, int32_t first);
    /// Computes one token of every continuation, in forwards of at most kMaxRows rows, and stores the tokens in `round`
    /// in slot order. Without continuations `round` is empty. Errors: as Level::sample.
    void step(std::vector<int32_t>& round);
    /// Ends every continuation as interrupted.
    void stop();

    int64_t tokens() const { return tokens_; }           // drawn by step()
    int64_t forwards() const { return forwards_; }       // of step()
    uint64_t read_bytes() const { return read_bytes_; }  // weights and KV that these forwards read on this rank

  private:
    struct Place {
        int64_t id = -1;  // -1: vacant
        Draws draws;
        std::unique_ptr<ContinuationBuilder> text;
        int32_t last = 0;    // the last token, not computed yet
        uint32_t round = 0;  // of the next draw
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
