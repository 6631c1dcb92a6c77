#pragma once
/// Who proposes tokens in a speculative run, as --spec names it.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// What proposes, and, but for n-grams, may check what another one proposes.
enum class Part { kNgram, kDraft, kWindow, kH2o, kRetrieval };
std::string_view name_of(Part part);

/// Each part but the first checks what the one before it proposes; the whole model checks what the last one does.
/// Empty: nobody proposes.
struct ChainSpec {
    std::vector<Part> parts;
    bool tree = false;  // what the first part proposes are trees

    bool has(Part part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
    bool operator==(const ChainSpec&) const = default;
};

/// "none"; a part alone, "ngram"; "triforce", which is draft+retrieval+full; "tree": retrieval's trees; or parts joined
/// by '+', "full" last. No part stands there twice, and ngram only first. Nothing: it is none of these.
std::optional<ChainSpec> parse_chain(std::string_view text);
/// What parse_chain would read.
std::string text_of(const ChainSpec& chain);
/// What is legal, for messages.
inline constexpr const char* kLegalChains =
    "none, ngram, window, draft, h2o, retrieval, tree, triforce, or a chain such as draft+retrieval+full: ngram, "
    "draft, window, h2o and retrieval, each at most once, ngram first, full last";

}  // namespace trireme
