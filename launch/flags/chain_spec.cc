#include "launch/flags/chain_spec.h"

#include <iterator>

#include <fmt/format.h>

namespace trireme {
namespace {

using Model = PartRow::Model;
using Sees = PartRow::Sees;

constexpr PartRow kParts[] = {
    {Part::kNgram, "ngram", Model::kNone, Sees::kText},                  // earlier occurrences of the last tokens
    {Part::kSuffix, "suffix", Model::kNone, Sees::kText},                // the longest end that occurs elsewhere
    {Part::kDraft, "draft", Model::kDraft, Sees::kWindow},               // a small model (--model-draft)
    {Part::kWindow, "window", Model::kTarget, Sees::kWindow},            // the model over its first and recent tokens
    {Part::kH2o, "h2o", Model::kTarget, Sees::kHeavy},                   // the model over heavy hitters
    {Part::kRetrieval, "retrieval", Model::kTarget, Sees::kRetrieved}};  // the model over retrieved chunks

const PartRow* find_row(std::string_view name) {
    const PartRow* row = std::ranges::find(kParts, name, &PartRow::name);
    return row == std::end(kParts) ? nullptr : row;
}

}  // namespace

const PartRow& row_of(Part part) {
    return *std::ranges::find(kParts, part, &PartRow::part);
}

std::optional<ChainSpec> parse_chain(std::string_view text) {
    if (text == "none" || text == "full") return ChainSpec();
    if (text == "triforce") return ChainSpec{.parts = {Part::kDraft, Part::kRetrieval}};
    if (text == "tree") return ChainSpec{.parts = {Part::kRetrieval}, .tree = true};
    if (const PartRow* alone = find_row(text)) return ChainSpec{.parts = {alone->part}};
    constexpr std::string_view kEnd = "+full";
    if (!text.ends_with(kEnd)) return std::nullopt;
    text.remove_suffix(kEnd.size());
    ChainSpec chain;
    while (true) {
        const size_t end = std::min(text.find('+'), text.size());
        const PartRow* row = find_row(text.substr(0, end));
        if (row == nullptr || chain.has(row->part) || (!row->has_level() && !chain.parts.empty())) return std::nullopt;
        chain.parts.push_back(row->part);
        if (end == text.size()) return chain;
        text.remove_prefix(end + 1);
    }
}

std::string text_of(const ChainSpec& chain) {
    if (chain.parts.empty()) return "none";
    if (chain.tree) return "tree";
    if (chain.parts.size() == 1) return std::string(name_of(chain.parts[0]));
    std::string text;
    for (const Part part : chain.parts) text += fmt::format("{}+", name_of(part));
    return text + "full";
}

}  // namespace trireme
