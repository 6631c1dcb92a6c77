#include "launch/run/chain.h"

#include <algorithm>

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "runtime/log.h"

namespace trireme {

void warn_of_unused(const std::vector<Options>& chains) {
    const Options fresh;
    const Options& o = chains.front();  // they differ in nothing else
    const auto unless_read = [&](bool given, const char* flag, const char* reader, auto reads) {
        if (given && std::none_of(chains.begin(), chains.end(), reads)) {
            log::warn("{} has no effect here: only {} reads it", flag, reader);
        }
    };
    unless_read(o.draft_tokens != fresh.draft_tokens, "--gamma", "a chain in which something is proposed",
                [](const Options& c) { return c.spec != Spec::kNone; });
    unless_read(!o.model_draft.empty(), "--model-draft", "the chain draft",
                [](const Options& c) { return c.spec == Spec::kDraft; });
    unless_read(o.draft_window != fresh.draft_window, "--draft-window", "the chains draft and window",
                [](const Options& c) { return c.spec == Spec::kDraft || c.spec == Spec::kWindow; });
}

Chain::Chain(const Options& o, Level& model, DraftModel* draft, Device& device) {
    if (o.spec == Spec::kNone) {
        decoder_ = std::make_unique<Plain>(model, o.sampling, o.seed.value());
        return;
    }
    if (o.spec == Spec::kNgram) {
        proposer_ = std::make_unique<Ngram>(o.draft_tokens);
    } else {
        proposer_ = std::make_unique<Drafter>(o.spec == Spec::kDraft ? "draft" : "window", device, draft->level(),
                                              o.sampling, o.seed.value(), /*level=*/1, o.draft_tokens);
    }
    auto speculate = std::make_unique<Speculate>(*proposer_, model, o.sampling, o.seed.value());
    speculate_ = speculate.get();
    decoder_ = std::move(speculate);
}

std::vector<const Speculate*> Chain::levels() const {
    return speculate_ == nullptr ? std::vector<const Speculate*>() : std::vector{speculate_};
}

}  // namespace trireme
