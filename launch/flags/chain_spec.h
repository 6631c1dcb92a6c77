#pragma once
/// Specification of a speculation chain, as --spec names it: the proposers and verifiers inside the full model.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A proposer. Each but the n-gram lookup may also verify what another part proposes.
enum class Part {
    kNgram,     // earlier occurrences of the last tokens
    kDraft,     // a small model (--model-draft)
    kWindow,    // the model over its first and recent tokens
    kH2o,       // the model over heavy hitters
    kRetrieval  // the model over retrieved chunks
};
/// Returns the part's name in --spec: "ngram".
std::string_view name_of(Part part);

/// Each part but the first verifies what the part before it proposes. The full model verifies the proposals of the last
/// part. An empty chain decodes without speculation.
struct ChainSpec {
    std::vector<Part> parts;  // the innermost proposer first
    bool tree = false;        // the first part proposes trees

    bool has(Part part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
    bool operator==(const ChainSpec&) const = default;
};

/// Accepts "none" or "full" (an empty chain), the name of one part, "triforce" (draft+retrieval+full), "tree"
/// (retrieval that proposes trees), or parts joined by '+' with "full" last. No part may occur twice, and ngram only
/// first. Nothing: not a legal chain.
std::optional<ChainSpec> parse_chain(std::string_view text);
/// The shortest text that parse_chain() reads as this chain.
std::string text_of(const ChainSpec& chain);
/// The legal chains, for messages.
inline constexpr const char* kLegalChains =
    "none, ngram, window, draft, h2o, retrieval, tree, triforce, or a chain such as draft+retrieval+full: ngram, "
    "draft, window, h2o and retrieval, each at most once, ngram first, full last";

}  // namespace trireme
