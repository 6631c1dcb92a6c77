#include "launch/run/chain.h"

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "decode/tree_drafter.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Flags that were given and that this chain does not read.
void warn_of_unused(const Options& o, const ChainSpec& spec) {
    const Options fresh;
    const auto unused = [](const char* flag, const char* reader) {
        log::warn("{} has no effect here: only {} reads it", flag, reader);
    };
    if (spec.parts.empty() && o.draft_tokens != fresh.draft_tokens) unused("--gamma", "a chain (--spec)");
    if (!spec.has(Part::kDraft) && !o.model_draft.empty()) unused("--model-draft", "a chain with draft");
    if (!spec.has(Part::kDraft) && !spec.has(Part::kWindow) && o.draft_window != fresh.draft_window) {
        unused("--draft-window", "a chain with draft or window");
    }
    if (!spec.tree && o.tree_size != fresh.tree_size) unused("--tree-size", "--spec tree");
    if (spec.has(Part::kRetrieval)) return;
    const char* const reader = "a chain with retrieval";
    if (o.retrieval_budget != fresh.retrieval_budget) unused("--retrieval-budget", reader);
    if (o.retrieval_chunk != fresh.retrieval_chunk) unused("--retrieval-chunk", reader);
    if (o.reselect != fresh.reselect) unused("--reselect", reader);
}

}  // namespace

// The model is level 0 of the chain (DrawKey), the last part level 1, the first one the deepest.
Chain::Chain(const Options& o, const ChainSpec& spec, Level& model, const SpecLevels* proposing, Device& device) {
    warn_of_unused(o, spec);
    if (spec.parts.empty()) {
        plain_ = std::make_unique<Plain>(model, o.sampling, o.seed.value());
        decoder_ = plain_.get();
        return;
    }
    Proposer* inner = &base(o, spec, proposing, device);
    for (size_t i = 1; i < spec.parts.size(); ++i) {
        Level& verifier = proposing->level(spec.parts[i]);
        const bool last = i + 1 == spec.parts.size();
        const int64_t length = last ? o.draft_tokens : o.inner_tokens;
        held_.push_back(std::make_unique<HeldLaws>(device, verifier, length));
        speculates_.push_back(
            std::make_unique<Speculate>(*inner, verifier, o.sampling, o.seed.value(),
                                        Speculate::Options{.verifier = name_of(spec.parts[i]).data(),
                                                           .level = static_cast<uint32_t>(spec.parts.size() - i),
                                                           .length = length,
                                                           .held = held_.back().get()}));
        inner = speculates_.back().get();
    }
    speculates_.push_back(std::make_unique<Speculate>(*inner, model, o.sampling, o.seed.value()));
    decoder_ = speculates_.back().get();
}

Proposer& Chain::base(const Options& o, const ChainSpec& spec, const SpecLevels* proposing, Device& device) {
    const Part part = spec.parts[0];
    const int64_t length = spec.parts.size() == 1 ? o.draft_tokens : o.inner_tokens;
    const auto level = static_cast<uint32_t>(spec.parts.size());
    if (part == Part::kNgram) {
        base_ = std::make_unique<Ngram>(length);
    } else if (spec.tree) {
        base_ =
            std::make_unique<TreeDrafter>("tree", device, proposing->level(part), o.sampling, o.seed.value(),
                                          TreeDrafter::Options{.level = level, .size = o.tree_size, .depth = length});
    } else {
        base_ = std::make_unique<Drafter>(name_of(part).data(), device, proposing->level(part), o.sampling,
                                          o.seed.value(), level, length);
    }
    return *base_;
}

std::vector<const Speculate*> Chain::levels() const {
    std::vector<const Speculate*> outermost_first;
    for (auto s = speculates_.rbegin(); s != speculates_.rend(); ++s) outermost_first.push_back(s->get());
    return outermost_first;
}

}  // namespace trireme
