#pragma once
/// Fault: an error that a kernel found in its operands' contents. describe.cc has the messages.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Comments name the two numbers that gpu.fault takes with it.
enum class Fault : int32_t {
    kNone,
    kEmbedId,    // id, vocabulary: the id is outside
    kGatherRow,  // row, number of rows: the row is outside
    kKeptSlot,   // row, slot: the row to keep is not staged
    kRowOrder,   // slot of a row, expected slot or slots cached before: rows are not in order
    kAncestor,   // ancestor, row: the ancestor is not staged
    kTile,       // slot, sequence: no tile holds the slot
    kLogits,     // row: it has a NaN, or no finite maximum
    kPick,       // chunks to pick, candidates: there are too few
    kBegin,      // slot of a row, first slot of its head: the row is before it
    kPosition,   // position of a key, positions that have angles: it is beyond
    kSlots,      // tokens, most tokens: a head has too many
    kRank,       // rank or row, bound: it is outside
    kRecent      // recent tokens, tokens: none may be evicted
};

}  // namespace trireme::gpu
