#pragma once
/// Specification of a speculation chain, as --spec names it: the proposers and verifiers inside the full model.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A proposer. Each that has a level may also verify what another part proposes.
enum class Part { kNgram, kSuffix, kDraft, kWindow, kH2o, kRetrieval };

/// What a part is; chains, plans and reports read it.
struct PartRow {
    enum class Model { kNone, kDraft, kTarget };             // whose weights its level has; kNone: it has no level
    enum class Sees { kText, kWindow, kHeavy, kRetrieved };  // the tokens that it attends, or looks up

    Part part;
    std::string_view name;  // in --spec
    Model model;
    Sees sees;

    bool has_level() const { return model != Model::kNone; }
};
const PartRow& row_of(Part part);
inline std::string_view name_of(Part part) {
    return row_of(part).name;
}

/// Each part but the first verifies what the part before it proposes. The full model verifies the proposals of the last
/// part. An empty chain decodes without speculation.
struct ChainSpec {
    std::vector<Part> parts;  // the innermost proposer first
    bool tree = false;        // the first part proposes trees

    bool has(Part part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
    bool operator==(const ChainSpec&) const = default;
};

/// Accepts "none" or "full" (an empty chain), the name of one part, "triforce" (draft+retrieval+full), "tree"
/// (retrieval that proposes trees), or parts joined by '+' with "full" last. No part may occur twice, and ngram and
/// suffix only first. Nothing: not a legal chain.
std::optional<ChainSpec> parse_chain(std::string_view text);
/// The shortest text that parse_chain() reads as this chain.
std::string text_of(const ChainSpec& chain);
/// The legal chains, for messages.
inline constexpr const char* kLegalChains =
    "none, ngram, suffix, window, draft, h2o, retrieval, tree, triforce, or a chain such as draft+retrieval+full: "
    "ngram or suffix first, draft, window, h2o and retrieval, each at most once, full last";

}  // namespace trireme
