#pragma once
/// StoreManifest: the content of a store's user block (sets.h): where its data sets are, and digests.

#include <string>
#include <string_view>
#include <vector>

#include "model/files/store/sets.h"

namespace trireme {

struct StoreManifest {
    std::string kind;               // what the file is for: "kv snapshot", ...
    std::vector<StoreSet> sets;     // "digests" is the last one
    std::vector<uint64_t> offsets;  // [sets] StoreLayout::offsets
    uint64_t file_bytes = 0;        // size of the file
    uint64_t digests = 0;           // XXH3 of the bytes of the set "digests"
    uint64_t rest = 0;              // XXH3 of all bytes after the user block that are in no set

    /// Returns the size of the user block of a file with these sets: enough for any manifest of them, a power of two.
    /// Writer and reader compute it alike.
    static uint64_t user_block(const std::string& kind, const std::vector<StoreSet>& sets);
    /// Returns the user block: `user_block` bytes, with zeros after the text.
    std::vector<std::byte> bytes(uint64_t user_block) const;
};

/// Bytes [begin, end) of the file.
struct StoreRange {
    uint64_t begin = 0, end = 0;
};
/// Returns the ranges after the user block that are in no set, in order. Errors: Exit::kData if sets overlap or are not
/// in the file after the user block. `where` names the file.
std::vector<StoreRange> ranges_between(const StoreManifest& manifest, uint64_t user_block, std::string_view where);

/// Parses and checks the JSON text of a user block, which is not trusted: types and shapes, no set twice, one digest
/// per block. It does not check offsets; ranges_between() does. `where` names the file. Errors: Exit::kData.
StoreManifest parse_manifest(std::string_view text, std::string_view where);

}  // namespace trireme
