#pragma once
/// Texts that are decoded side by side: each has a place, which is a sequence of the model, and a forward computes one
/// token of each.

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

/// By what a text's tokens are drawn: token i depends on these, i, and the text before it.
struct Draws {
    SamplingParams sampling;
    uint64_t seed = 0;
    uint32_t sample = 0;
};

class Places {
  public:
    /// A text has ended: `id` is what begin() was told.
    using Ended = std::function<void(int64_t id, Continuation text)>;

    /// Sequences 0 .. n - 1 of `model` are its own; both must outlive the object. Errors: Exit::kInternal where the
    /// model has fewer.
    Places(Level& model, int64_t n, Ended ended);

    /// The first place that no text has: the number of its sequence. Nothing: there is none.
    std::optional<int> vacant() const;
    bool empty() const;
    /// A text begins in a vacant place, whose sequence holds the tokens in front of it; `first` is its first token,
    /// which has been drawn. It may end at once.
    void begin(int place, int64_t id, const Draws& draws, std::unique_ptr<ContinuationBuilder> text, int32_t first);
    /// A token of every text, in one forward, or in several of kMaxRows rows; `round` gets them, in the order of the
    /// places. Without texts it does nothing. Errors: as Level::sample.
    void step(std::vector<int32_t>& round);
    /// Every text ends here: it has been interrupted.
    void stop();

    int64_t tokens() const { return tokens_; }           // drawn by step()
    int64_t forwards() const { return forwards_; }       // of step()
    uint64_t read_bytes() const { return read_bytes_; }  // of weights and KV, that they have read on this rank

  private:
    struct Place {
        int64_t id = -1;  // -1: vacant
        Draws draws;
        std::unique_ptr<ContinuationBuilder> text;
        int32_t last = 0;    // its last token, which has not been computed
        uint32_t round = 0;  // of its draws
    };
    void forward(std::vector<int32_t>& round);
    void draw();
    void end(Place& place);

    Level& model_;
    Ended ended_;
    std::vector<Place> places_;
    int64_t tokens_ = 0, forwards_ = 0;
    uint64_t read_bytes_ = 0;
    // Of a forward.
    std::vector<Row> rows_;
    std::vector<Place*> computed_;
    std::vector<double> uniforms_;
    std::vector<int32_t> drawn_;
};

}  // namespace trireme
