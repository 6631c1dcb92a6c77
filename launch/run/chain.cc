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
    if (o.inner_draft_tokens != fresh.inner_draft_tokens) unused("--gamma-inner", "a chain with a level in between");
    if (weighed_levels(o).empty() && !o.spec_costs.empty()) unused("--spec-costs", "a chain with --gamma auto");
    if (o.spec != Spec::kDraft && !o.model_draft.empty()) unused("--model-draft", "--spec draft");
    if (o.spec != Spec::kDraft && o.spec != Spec::kWindow && o.draft_window != fresh.draft_window) {
        unused("--draft-window", "--spec draft or window");
    }
}

}  // namespace

std::vector<std::string> weighed_levels(const Options& o) {
    if (o.spec == Spec::kNone || o.draft_tokens != DraftLength::kAuto) return {};
    if (o.spec == Spec::kNgram) return {"full"};
    return {"full", o.spec == Spec::kDraft ? "draft" : "window"};
}

Chain::Chain(const Options& o, Level& model, DraftModel* draft, Device& device, SpecCosts costs)
    : sampling_(o.sampling), costs_(std::move(costs)) {
    warn_of_unused(o);
    if (o.spec == Spec::kNone) {
        decoder_ = std::make_unique<Plain>(model, o.sampling, o.seed.value());
        return;
    }
    const int64_t most = Options::most_draft_tokens(o.draft_tokens);
    if (o.spec == Spec::kNgram) {
        proposer_ = std::make_unique<Ngram>(most);
    } else {
        proposer_ = std::make_unique<Drafter>(o.spec == Spec::kDraft ? "draft" : "window", device, draft->level(),
                                              o.sampling, o.seed.value(), /*level=*/1, most);
    }
    for (const std::string& name : weighed_levels(o)) {
        weighed_.push_back({name, name == "full" ? &model : &draft->level()});
    }
    Speculate::Options checks;
    if (!weighed_.empty()) checks.lengths = &lengths_.emplace_back();
    if (!costs_.empty()) know(lengths_, costs_);
    auto speculate = std::make_unique<Speculate>(*proposer_, model, o.sampling, o.seed.value(), checks);
    speculate_ = speculate.get();
    decoder_ = std::move(speculate);
}

void Chain::warm_up(const Crew& crew, int32_t token) {
    for (size_t i = 0; i < weighed_.size(); ++i) {
        const MeasuredRows rows = i < lengths_.size() ? MeasuredRows::kMany : MeasuredRows::kOne;
        costs_.push_back(measure_costs(weighed_[i].name, *weighed_[i].level, rows, sampling_, token, crew.comm()));
    }
    know(lengths_, costs_);
}

std::vector<const Speculate*> Chain::levels() const {
    return speculate_ == nullptr ? std::vector<const Speculate*>() : std::vector{speculate_};
}

}  // namespace trireme
