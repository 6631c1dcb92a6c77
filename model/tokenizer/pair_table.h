#pragma once
/// PairTable: the merges of a BpeTokenizer, (left id, right id) -> Join, in one flat hash table.

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/tokenizer/merge.h"

namespace trireme {

class PairTable {
  public:
    PairTable() = default;  // find() finds nothing; no entry may be added
    /// Makes room for `pairs` entries; the caller must not add more.
    explicit PairTable(size_t pairs) : slots_(std::bit_ceil(2 * pairs + 1)) {}

    /// Returns false and changes nothing if the pair has an entry. Ids are not negative.
    bool insert(int32_t left, int32_t right, Join join) {
        Slot& slot = slots_[find_slot(key_of(left, right))];
        if (slot.join.id >= 0) return false;
        slot = {key_of(left, right), join};
        return true;
    }
    /// Like insert(), but an existing entry is overwritten.
    void replace(int32_t left, int32_t right, Join join) {
        slots_[find_slot(key_of(left, right))] = {key_of(left, right), join};
    }

    /// Returns nothing if the two tokens do not merge.
    std::optional<Join> find(int32_t left, int32_t right) const {
        if (slots_.empty()) return std::nullopt;
        const Slot& slot = slots_[find_slot(key_of(left, right))];
        if (slot.join.id < 0) return std::nullopt;
        return slot.join;
    }

  private:
    struct Slot {
        uint64_t key = 0;
        Join join;  // id < 0: empty
    };

    static uint64_t key_of(int32_t left, int32_t right) {
        return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
    }
    /// Returns the slot of the key, or the empty slot where it belongs. Linear probing at a load of at most one half.
    size_t find_slot(uint64_t key) const {
        const uint64_t mixed = (key ^ key >> 29) * 0xBF58476D1CE4E5B9u;
        size_t i = static_cast<size_t>(mixed >> 32) & (slots_.size() - 1);
        while (slots_[i].join.id >= 0 && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
        return i;
    }

    std::vector<Slot> slots_;
};

}  // namespace trireme
