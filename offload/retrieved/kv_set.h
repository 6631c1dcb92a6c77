#pragma once
/// KvSet: copies of some of a sequence's keys and values, which an observer of the full cache keeps up to date. A
/// proposing level, the reader, attends them alone (SetCache).

#include <cstdint>

#include "offload/cache.h"
#include "runtime/stream.h"

namespace trireme {

class KvSet {
  public:
    virtual ~KvSet() = default;

    /// The number of the sequence's tokens that the set has followed.
    virtual int64_t tokens() const = 0;
    /// The number of filled slots of the fullest head; equal in all layers.
    virtual int64_t slots() const = 0;
    /// The most that slots() ever is.
    virtual int64_t most_slots() const = 0;
    /// The most tokens that attention sees (CacheFacts::visible).
    virtual int64_t visible() const { return INT64_MAX; }
    /// An owner's tiles in the set, with the tables that attention requires; the staged rows are the full cache's.
    virtual LayerKv layer(OwnerIndex owner) const = 0;

    /// Called when a reader has adopted the set's length; it may read the set from now on.
    virtual void taken_over() = 0;
    /// Serialises the set. The full cache that it follows must have no staged rows.
    virtual void state(Archive& ar) = 0;

    /// To be called before the reader enqueues work that reads the set on its stream `reader`: makes that work wait for
    /// earlier changes of the set.
    virtual void begin_reading(Stream& reader) = 0;
    /// To be called after that work is enqueued, with an event after it: later changes of the set wait for the event.
    virtual void read_until(const Event& event) = 0;
    /// Called before the reader and its stream are destroyed. Blocks until no work of the set waits for them.
    virtual void reader_leaves() noexcept = 0;
};

}  // namespace trireme
