#include "launch/run/chain.h"

#include <algorithm>

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "launch/flags/modes.h"
#include "launch/run/spec_costs.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Whether the tokens that are drafted for the full model have distributions, and may have siblings.
bool may_widen(const Options& o) {
    return !o.spec.parts.empty() && !o.spec.tree && row_of(o.spec.parts.back()).has_level();
}

}  // namespace

void warn_of_unused(const std::vector<Options>& chains) {
    const Options fresh;
    const Options& o = chains.front();  // they differ in nothing else that is read here
    const auto unless_read = [&](bool given, const char* flag, const char* reader, auto reads) {
        if (given && std::none_of(chains.begin(), chains.end(), reads)) {
            log::warn("{} has no effect here: only {} reads it", flag, reader);
        }
    };
    const auto has = [](Part part) { return [part](const Options& c) { return c.spec.has(part); }; };
    const auto retrieves = has(Part::kRetrieval);
    unless_read(o.gamma != fresh.gamma, "--gamma", "a chain in which something is proposed",
                [](const Options& c) { return !c.spec.parts.empty(); });
    unless_read(o.gamma_inner != fresh.gamma_inner, "--gamma-inner", "a chain with a level in between",
                [](const Options& c) { return c.spec.parts.size() > 1; });
    unless_read(!o.spec_costs.empty(), "--spec-costs", "a chain with --gamma auto",
                [](const Options& c) { return !weighed_levels(c).empty(); });
    unless_read(o.tree_size != fresh.tree_size, "--tree-size", "--spec tree",
                [](const Options& c) { return c.spec.tree; });
    unless_read(o.siblings != fresh.siblings, "--siblings", "a chain that ends in a model, no tree", may_widen);
    unless_read(!o.suffix_corpus.empty(), "--suffix-corpus", "a chain with suffix", has(Part::kSuffix));
    unless_read(!o.model_draft.empty(), "--model-draft", "a chain with draft", has(Part::kDraft));
    unless_read(o.draft_window != fresh.draft_window, "--draft-window", "a chain with draft or window",
                [](const Options& c) {
                    return std::ranges::any_of(c.spec.parts,
                                               [](Part part) { return row_of(part).sees == PartRow::Sees::kWindow; });
                });
    unless_read(o.retrieval_budget != fresh.retrieval_budget, "--retrieval-budget", "a chain with retrieval",
                retrieves);
    unless_read(o.retrieval_chunk != fresh.retrieval_chunk, "--retrieval-chunk", "a chain with retrieval", retrieves);
    unless_read(o.reselect != fresh.reselect, "--reselect", "a chain with retrieval", retrieves);
    unless_read(o.reselect_queries != fresh.reselect_queries, "--reselect-queries", "a chain with retrieval",
                retrieves);
}

std::vector<std::string> weighed_levels(const Options& o) {
    bool adapts = false;
    for (size_t i = 0; i < o.spec.parts.size(); ++i) adapts |= fixed_gamma(o, i) == GammaController::kAuto;
    return adapts ? level_names(o) : std::vector<std::string>();
}

SpecCosts given_costs(const Options& o) {
    const std::vector<std::string> levels = weighed_levels(o);
    return o.spec_costs.empty() || levels.empty() ? SpecCosts() : read_spec_costs(o.spec_costs, levels);
}

std::vector<std::string> level_names(const Options& o) {
    const ChainSpec& spec = o.spec;
    std::vector<std::string> names = {"full"};
    for (size_t i = spec.parts.size(); i-- > 0;) {
        if (!row_of(spec.parts[i]).has_level()) continue;
        // A tree's level is timed with forwards of many rows, other drafting levels with one row.
        names.emplace_back(spec.tree && i == 0 ? "tree" : name_of(spec.parts[i]));
    }
    return names;
}

// The model is level 0 of the chain (DrawKey), the last part level 1, the first one the deepest.
Chain::Chain(const Options& o, Level& model, const SpecLevels* proposing, Device& device, SpecCosts costs, int slot)
    : sampling_(o.sampling), weighed_(weighed_levels(o)), costs_(std::move(costs)) {
    const ChainSpec& spec = o.spec;
    if (spec.parts.empty()) {
        plain_ = std::make_unique<Plain>(model, o.sampling, o.seed.value(), slot);
        decoder_ = plain_.get();
        return;
    }
    const size_t n = spec.parts.size();
    levels_.push_back(&model);
    for (size_t i = n; i-- > 0;) {
        levels_.push_back(row_of(spec.parts[i]).has_level() ? &proposing->level(spec.parts[i], slot) : nullptr);
        if (!weighed_.empty()) gammas_.emplace_back(fixed_gamma(o, i));
    }
    base_ = base_of(o, proposing, device);
    if (proposing != nullptr && proposing->retrieved() != nullptr && o.reselect == 1 && spec.has(Part::kRetrieval)) {
        selecting_ = proposing;
    }
    if (!costs_.empty()) know_costs();
    Proposer* inner = base_.get();
    for (size_t level = n; level-- > 0;) {  // of the verifier
        Speculate::Options checks = {.level = static_cast<uint32_t>(level), .keeps_rounds = !o.record.empty()};
        if (level == 0) {
            checks.sequence = slot;
            // Rows of sequences side by side share forwards: their costs are not those of the table.
            const bool decides = o.gamma == GammaController::kAuto && !o.side_by_side();
            if (may_widen(o) && (decides || o.siblings != GammaController::kAutoSiblings)) checks.siblings = o.siblings;
        }
        checks.longest = spec.tree ? checks.longest : Options::most_gamma(fixed_gamma(o, n - 1 - level));
        if (!gammas_.empty()) checks.gamma = &gammas_[level];
        if (level > 0) {
            const size_t part = n - level;
            checks.verifier = name_of(spec.parts[part]).data();
            checks.wanted = draft_distributions(o, spec.parts[part]);
            checks.held =
                held_.emplace_back(std::make_unique<DraftDistributions>(device, *levels_[level], checks.wanted)).get();
        }
        speculates_.push_back(std::make_unique<Speculate>(*inner, *levels_[level], o.sampling, o.seed.value(), checks));
        inner = speculates_.back().get();
    }
    decoder_ = speculates_.back().get();
}

void Chain::adopt_costs(const SpecCosts& costs) {
    costs_ = costs;
    if (!gammas_.empty() && !costs_.empty()) know_costs();
}

void Chain::know_costs() {
    if (suffix_ != nullptr) suffix_->set_costs(costs_.back());  // its verifier's: it has no costs of its own
    if (tree_ == nullptr) return set_costs(gammas_, costs_);
    gammas_[0].set_costs(costs_[0], tree_->costs(costs_[1]));
}

std::unique_ptr<Proposer> Chain::base_of(const Options& o, const SpecLevels* proposing, Device& device) {
    if (levels_.back() == nullptr) {
        const int64_t most = Options::most_gamma(fixed_gamma(o, 0));
        if (o.spec.parts[0] == Part::kNgram) return std::make_unique<Ngram>(most);
        auto suffix = std::make_unique<Suffix>(most, proposing == nullptr ? nullptr : proposing->corpus());
        if (fixed_gamma(o, 0) == GammaController::kAuto) suffix_ = suffix.get();
        return suffix;
    }
    const auto level = static_cast<uint32_t>(o.spec.parts.size());
    if (o.spec.tree) {
        const int64_t depth = o.gamma == GammaController::kAuto ? Options::kTreeDepth : o.gamma;
        auto tree =
            std::make_unique<TreeDrafter>("tree", device, *levels_.back(), o.sampling, o.seed.value(),
                                          TreeDrafter::Options{.level = level, .size = o.tree_size, .depth = depth});
        tree_ = tree.get();
        return tree;
    }
    return std::make_unique<Drafter>(name_of(o.spec.parts[0]).data(), device, *levels_.back(), o.sampling,
                                     o.seed.value(), level, draft_distributions(o, o.spec.parts[0]));
}

void Chain::warm_up(const RankGroup& rank_group, int32_t token) {
    for (size_t i = 0; i < weighed_.size(); ++i) {
        const bool many = i < gammas_.size() || tree_ != nullptr;
        const MeasuredRows rows = many ? MeasuredRows::kMany : MeasuredRows::kOne;
        costs_.push_back(measure_costs(weighed_[i], *levels_[i], rows, sampling_, token, rank_group.comm()));
    }
    if (selecting_ != nullptr) add_to_verifies(costs_.front(), selection_ms(), rank_group.comm());
    know_costs();
}

/// Mean time of a selection of the retrieved set, by those so far, of which the prompt's is one. 0 on a device that
/// times no operations: there it is a small part of a verify.
double Chain::selection_ms() const {
    uint64_t ns = 0;
    for (const char* what : {"choose_chunks", "gather_chunks"}) ns += levels_.front()->stream().spent(what).ns;
    const int64_t selections = selecting_->retrieved()->choice().number;
    return selections > 0 ? static_cast<double>(ns) * 1e-6 / static_cast<double>(selections) : 0;
}

std::vector<const Speculate*> Chain::levels() const {
    std::vector<const Speculate*> outermost_first;
    for (auto s = speculates_.rbegin(); s != speculates_.rend(); ++s) outermost_first.push_back(s->get());
    return outermost_first;
}

std::vector<std::vector<KeptRound>> Chain::take_kept_rounds() {
    std::vector<std::vector<KeptRound>> outermost_first;
    for (auto s = speculates_.rbegin(); s != speculates_.rend(); ++s)
        outermost_first.push_back((*s)->take_kept_rounds());
    return outermost_first;
}

uint64_t Chain::digest() const {
    uint64_t all = 0;
    for (const auto& s : speculates_) all = (all ^ s->digest()) * 0x9e3779b97f4a7c15;  // their order counts
    return all;
}

uint64_t digest_of(const std::vector<std::unique_ptr<Chain>>& chains) {
    uint64_t all = 0;
    for (const auto& chain : chains) all = all * 0x9e3779b97f4a7c15 + (chain ? chain->digest() : 0);
    return all;
}

void add_levels(std::vector<ChainLevel>& all, const Chain& chain) {
    const std::vector<const Speculate*> levels = chain.levels();
    all.resize(levels.size());
    for (size_t i = 0; i < levels.size(); ++i) {
        all[i].name = levels[i]->name();
        all[i].stats += levels[i]->stats();
        all[i].rounds.insert(all[i].rounds.end(), levels[i]->rounds().begin(), levels[i]->rounds().end());
    }
}

Chains::Chains(const Options& o, Level& model, const SpecLevels* proposing, Device& device, const SpecCosts& costs,
               int64_t slots) {
    for (int64_t slot = 0; slot < slots; ++slot) {
        all_.push_back(std::make_unique<Chain>(o, model, proposing, device, costs, static_cast<int>(slot)));
    }
}

Slots Chains::slots() {
    std::vector<Decoder*> decoders;
    for (const auto& chain : all_) decoders.push_back(&chain->decoder());
    return Slots(std::move(decoders));
}

std::vector<ChainLevel> Chains::levels() const {
    std::vector<ChainLevel> all;
    for (const auto& chain : all_) add_levels(all, *chain);
    return all;
}

std::vector<std::vector<KeptRound>> Chains::take_kept_rounds() {
    std::vector<std::vector<KeptRound>> all = first().take_kept_rounds();
    for (size_t slot = 1; slot < all_.size(); ++slot) {
        const std::vector<std::vector<KeptRound>> more = all_[slot]->take_kept_rounds();
        for (size_t level = 0; level < all.size(); ++level)
            all[level].insert(all[level].end(), more[level].begin(), more[level].end());
    }
    return all;
}

void Chains::warm_up(const RankGroup& rank_group, int32_t token) {
    first().warm_up(rank_group, token);
    for (const auto& chain : all_) chain->adopt_costs(first().costs());
}

}  // namespace trireme
