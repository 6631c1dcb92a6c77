#pragma once
/// Some of a text's keys and values, which a follower of the full view keeps up to date, for a level that attends them
/// alone (SetView).

#include <cstdint>

#include "offload/view.h"
#include "runtime/stream.h"

namespace trireme {

class KvSet {
  public:
    virtual ~KvSet() = default;

    /// Of the text, as far as the set has followed it.
    virtual int64_t tokens() const = 0;
    /// Slots that are filled in every layer, in a head that has most; and the most that ever are.
    virtual int64_t slots() const = 0;
    virtual int64_t most_slots() const = 0;
    /// How many of a text's tokens attention sees once there are so many (KvView::kept).
    virtual int64_t seen(int64_t tokens) const { return tokens; }
    /// An owner's tiles, and what attention is to know of them; its staged rows are the full view's.
    virtual LayerKv layer(OwnerIndex owner) const = 0;

    /// A reader has found the set where it is, and will read it if it is to propose what follows.
    virtual void taken_over() = 0;
    /// What it holds, where the full view that it follows has no rows staged.
    virtual void state(Archive& ar) = 0;

    /// `reader` is about to read the set; and has enqueued all of that: what changes the set waits for this event.
    virtual void begin_reading(Stream& reader) = 0;
    virtual void read_until(const Event& event) = 0;
    /// The reader goes, and its stream with it. Blocks until nothing that the set has enqueued waits for it.
    virtual void reader_leaves() noexcept = 0;
};

}  // namespace trireme
