#include "launch/run/chain.h"

#include "decode/drafter.h"
#include "decode/ngram.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Flags that were given and that this chain does not read.
void warn_of_unused(const Options& o) {
    const Options fresh;
    const auto unused = [](const char* flag, const char* reader) {
        log::warn("{} has no effect here: only {} reads it", flag, reader);
    };
    if (o.spec == Spec::kNone && o.draft_tokens != fresh.draft_tokens) unused("--gamma", "a chain (--spec)");
    if (o.spec != Spec::kDraft && !o.model_draft.empty()) unused("--model-draft", "--spec draft");
    if (o.spec != Spec::kDraft && o.spec != Spec::kWindow && o.draft_window != fresh.draft_window) {
        unused("--draft-window", "--spec draft or window");
    }
}

}  // namespace

Chain::Chain(const Options& o, Level& model, DraftModel* draft, Device& device) {
    warn_of_unused(o);
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
