#pragma once
/// Loop: the run loop. It decodes continuations in the sequences of one model, its batch slots. In each round every
/// continuation drafts for itself, and forwards of up to kMaxRows rows verify the drafts of several. A continuation may
/// begin while others are being decoded. Its tokens are those that it has alone, bit for bit.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/continuation.h"
#include "decode/proposer.h"

namespace trireme {

class Loop {
  public:
    /// Called by begin(), draw_first(), step() or stop() when a continuation has ended and its slot is vacant; `id` is
    /// the one that was passed to begin().
    using Ended = std::function<void(int64_t id, Continuation text)>;

    /// Slot s decodes in sequence s of `target`, which must outlive the object. Errors: Exit::kInternal if the model
    /// has fewer sequences.
    Loop(Level& target, int64_t slots, Ended ended);

    /// The first vacant slot; none if all are in use. Its sequence still holds the tokens of its last continuation.
    std::optional<int> vacant() const;
    /// Whether all slots are vacant.
    bool empty() const;
    /// Puts a continuation into the vacant slot of decoder.sequence(). Decoder::begin() has been called, and the
    /// sequence ends with the prompt or with what an earlier run has drawn. `id`, at least 0, identifies the
    /// continuation for `Ended`. If it has ended already, the slot remains vacant. `decoder` must remain until the end.
    void begin(Decoder& decoder, int64_t id, std::unique_ptr<ContinuationBuilder> text);
    /// Draws the first token of a continuation that has just begun after a prompt, and appends it to `round`. Call it
    /// before other continuations of the same model begin or step.
    void draw_first(const Decoder& decoder, std::vector<int32_t>& round);
    /// A round of every continuation. Appends the tokens that have become part of them to `round`, in slot order.
    /// Blocks until they are drawn. Errors: as Logits::sample.
    void step(std::vector<int32_t>& round);
    /// Ends every continuation as interrupted (StopReason::kInterrupted).
    void stop();

    int64_t forwards() const { return forwards_; }  // number of forwards of step()

  private:
    struct Slot {
        Decoder* decoder = nullptr;  // null: vacant
        int64_t id = -1;
        std::unique_ptr<ContinuationBuilder> text;
        int64_t rows = 0;   // drafted rows that no forward has computed
        int64_t first = 0;  // the first of them in the forward
        bool settled = false;
    };
    void forward(std::vector<int32_t>& round);
    void settle(const SamplingParams& sampling, std::vector<int32_t>& round);
    void take(Slot& slot, std::span<const Proposed> tokens, std::vector<int32_t>& round);
    void end(Slot& slot);

    Level& target_;
    Ended ended_;
    std::vector<Slot> slots_;
    int64_t forwards_ = 0;
    uint64_t begin_ns_ = 0;  // of the last forward
    // Scratch of one forward.
    RoundRows rows_;
    std::vector<Slot*> computed_;
    std::vector<int32_t> path_;
};

}  // namespace trireme
