#pragma once
/// StoreManifest: the content of a store's user block (sets.h).

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
    uint64_t rest = 0;     // XXH3 of all bytes after the user block that are in no set

    /// Returns an upper bound of the user block's bytes for these sets, a power of two.
    static uint64_t user_block(const std::string& kind, const std::vector<StoreSet>& sets);
    /// Returns the user block, with zeros after the text.
    std::vector<std::byte> bytes(uint64_t user_block) const;
};

/// A set's bytes in the file, or bytes between sets.
struct StoreRange {
    uint64_t begin = 0, end = 0;
};
/// Returns the ranges after the user block that are in no set, in order. Errors: Exit::kData if sets overlap or are not
/// in the file. `where` names the file.
std::vector<StoreRange> ranges_between(const StoreManifest& manifest, uint64_t user_block, std::string_view where);

/// Parses the text of a user block. Sets are as in sets.h, each once; offsets are not checked. Errors: Exit::kData.
StoreManifest parse_manifest(std::string_view text, std::string_view where);

}  // namespace trireme
