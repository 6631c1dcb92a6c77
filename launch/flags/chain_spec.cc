#include "launch/flags/chain_spec.h"

#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace trireme {
namespace {

constexpr std::pair<Part, std::string_view> kParts[] = {{Part::kNgram, "ngram"},
                                                        {Part::kDraft, "draft"},
                                                        {Part::kWindow, "window"},
                                                        {Part::kH2o, "h2o"},
                                                        {Part::kRetrieval, "retrieval"}};

std::optional<Part> part_of_name(std::string_view name) {
    for (const auto& [part, its] : kParts) {
        if (its == name) return part;
    }
    return std::nullopt;
}

}  // namespace

std::string_view name_of(Part part) {
    return std::find_if(std::begin(kParts), std::end(kParts), [&](const auto& p) { return p.first == part; })->second;
}

std::optional<ChainSpec> parse_chain(std::string_view text) {
    if (text == "none" || text == "full") return ChainSpec();
    if (text == "triforce") return ChainSpec{.parts = {Part::kDraft, Part::kRetrieval}};
    if (text == "tree") return ChainSpec{.parts = {Part::kRetrieval}, .tree = true};
    if (const std::optional<Part> alone = part_of_name(text)) return ChainSpec{.parts = {*alone}};
    constexpr std::string_view kEnd = "+full";
    if (!text.ends_with(kEnd)) return std::nullopt;
    text.remove_suffix(kEnd.size());
    ChainSpec chain;
    while (true) {
        const size_t end = std::min(text.find('+'), text.size());
        const std::optional<Part> part = part_of_name(text.substr(0, end));
        if (!part || chain.has(*part) || (*part == Part::kNgram && !chain.parts.empty())) return std::nullopt;
        chain.parts.push_back(*part);
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
