#pragma once
/// What a store's user block says (sets.h).

#include <string>
#include <string_view>
#include <vector>

#include "model/files/store/sets.h"

namespace trireme {

struct StoreManifest {
    std::string kind;            // what the file is for: "kv snapshot", ...
    std::vector<StoreSet> sets;  // "digests" is the last one
    std::vector<uint64_t> offsets;
    uint64_t file_bytes = 0;
    uint64_t digests = 0;  // XXH3 of the digests
    uint64_t rest = 0;     // XXH3 of all bytes behind the user block that are in no set

    /// The user block's bytes that these sets need at most, a power of two.
    static uint64_t user_block(const std::string& kind, const std::vector<StoreSet>& sets);
    /// The user block, zeros behind the text.
    std::vector<std::byte> bytes(uint64_t user_block) const;
};

/// A set's bytes in the file, or bytes between sets.
struct StoreRange {
    uint64_t begin = 0, end = 0;
};
/// What lies behind the user block and in no set, in order. Errors: Exit::kData where sets overlap or do not lie in the
/// file. `where` names the file.
std::vector<StoreRange> ranges_between(const StoreManifest& manifest, uint64_t user_block, std::string_view where);

/// From the text of a user block. Errors: Exit::kData. Sets are what sets.h says, each once, and in the file.
StoreManifest parse_manifest(std::string_view text, std::string_view where);

}  // namespace trireme
