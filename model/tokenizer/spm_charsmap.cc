#include <vector>

#include "model/tokenizer/spm_model.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr size_t kMapBytes = size_t{4} << 20;  // NFKC's has 0.24 MB
constexpr size_t kTextBytes = 1024;            // NFKC's longest has 33; it bounds how much a text can grow

uint32_t word_at(std::string_view bytes, size_t i) {
    uint32_t word = 0;
    for (size_t k = 0; k < 4; ++k) word |= uint32_t{static_cast<uint8_t>(bytes[4 * i + k])} << (8 * k);
    return word;
}

/// One unit of a darts-clone double array: offset to its children, the label it is reached by, or a leaf's value.
struct Unit {
    uint32_t bits;
    bool has_leaf() const { return (bits >> 8 & 1) != 0; }
    uint32_t value() const { return bits & 0x7FFFFFFFu; }
    uint32_t label() const { return bits & 0x800000FFu; }
    uint32_t offset() const { return bits >> 10 << ((bits & 0x200u) >> 6); }
};

}  // namespace

// The library reads children and leaf before it looks at a label, so all 256 neighbours of a reachable node must exist.
void check_charsmap(std::string_view charsmap, std::string_view what) {
    require(charsmap.size() > 4 && charsmap.size() <= kMapBytes, Exit::kData,
            "{}: a character map of {} bytes, 5 to {} are allowed", what, charsmap.size(), kMapBytes);
    const uint32_t trie_bytes = word_at(charsmap, 0);
    require(trie_bytes < charsmap.size() - 4 && trie_bytes % 4 == 0 && trie_bytes > 0, Exit::kData,
            "{}: the tables of the character map do not fit its {} bytes", what, charsmap.size());
    const std::string_view trie = charsmap.substr(4, trie_bytes);
    const std::string_view texts = charsmap.substr(4 + trie_bytes);
    require(texts.back() == '\0', Exit::kData, "{}: the last text of the character map has no end", what);

    const size_t units = trie.size() / 4;
    std::vector<bool> seen(units);
    std::vector<size_t> open = {0};
    seen[0] = true;
    const auto inside = [&](size_t node) {
        require(node < units, Exit::kData, "{}: the character map leads outside its {} nodes", what, units);
        return node;
    };
    while (!open.empty()) {
        const size_t node = open.back();
        open.pop_back();
        const Unit unit{word_at(trie, node)};
        const size_t base = node ^ unit.offset();
        if (unit.has_leaf()) {
            const uint32_t text = Unit{word_at(trie, inside(base))}.value();
            require(text < texts.size() && texts.substr(text, kTextBytes + 1).find('\0') != texts.npos, Exit::kData,
                    "{}: the character map maps to byte {} of {}, or to more than {} bytes", what, text, texts.size(),
                    kTextBytes);
        }
        for (size_t byte = 0; byte < 256; ++byte) {
            const size_t child = inside(base ^ byte);
            if (seen[child] || Unit{word_at(trie, child)}.label() != byte) continue;
            seen[child] = true;
            open.push_back(child);
        }
    }
}

}  // namespace trireme
