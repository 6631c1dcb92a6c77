#include "launch/run/draft_model.h"

#include <algorithm>
#include <cstdlib>

#include "launch/run/checkpoint.h"
#include "launch/run/kv_wire.h"
#include "model/checkpoint/padded_model.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr int64_t kSinks = 16;  // as TriForce

CacheMaker window_cache(const LlamaConfig& config, int64_t window) {
    auto rope = std::make_shared<Rope>(config.rope, config.head_dim);
    return [rope, window](Device& device, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
        return std::make_unique<WindowCache>(
            device, compute, shape, draft_window_shape(window),
            [rope](std::span<float> out, int64_t positions) { rope->turn(out, positions); });
    };
}

// Vocabularies are padded to multiples of 64 to 512.
constexpr int64_t kMostPadding = 512;

/// Draft and target exchange token ids, so these must mean the same tokens. Only the number of padding rows of the
/// vocabularies may differ.
void require_same_vocabulary(const Options& o, const LlamaConfig& draft, const Checkpoint& target) {
    const int64_t own_vocab = draft.vocab, wanted = target.config().vocab;
    require(std::abs(own_vocab - wanted) < kMostPadding, Exit::kConfig,
            "--model-draft {}: its vocabulary has {} tokens, the model's {}; want a draft made for this model",
            o.model_draft, own_vocab, wanted);
    if (own_vocab != wanted) {
        log::info("--model-draft {}: its vocabulary has {} tokens, the model's {}: {}", o.model_draft, own_vocab,
                  wanted,
                  own_vocab > wanted ? "the last ones are left out" : "the last ones are never proposed for good");
    }
    const std::string_view without = "the draft's tokens are not compared";
    if (!target.tokenizer) return log::debug("{}: ids go in and out", without);
    const std::unique_ptr<Tokenizer> own = optional_tokenizer(o.model_draft, without);
    if (!own) return;
    for (int32_t id = 0; id < std::min(own->vocab(), target.tokenizer->vocab()); ++id) {
        require(own->piece(id) == target.tokenizer->piece(id), Exit::kConfig,
                "--model-draft {}: its token {} is '{}', the model's '{}'; want a draft made for this model",
                o.model_draft, id, own->piece(id), target.tokenizer->piece(id));
    }
}

/// Opens the model that --model-draft names; null: this part has no model of its own.
std::unique_ptr<WeightSource> open_draft(const Options& o, Part what) {
    if (row_of(what).model != PartRow::Model::kDraft) return nullptr;
    require(!o.model_draft.empty(), Exit::kUsage, "--spec {}: no draft model; give -md PATH", text_of(o.spec));
    return open_model(o.model_draft);
}

/// Gives the draft the target's vocabulary size. Null if `draft` is null.
std::unique_ptr<WeightSource> padded(std::unique_ptr<WeightSource> draft, const Options& o, const Checkpoint& target) {
    if (!draft) return draft;
    require_same_vocabulary(o, draft->config(), target);
    return with_vocabulary(std::move(draft), target.config().vocab);
}

}  // namespace

WindowShape draft_window_shape(int64_t tokens) {
    return {.sinks = kSinks, .recent = tokens - kSinks};
}

DraftModel::DraftModel(const Options& o, const Checkpoint& target, Part what)
    : options_{.k_type = o.cache_type_k, .v_type = o.cache_type_v, .graphs = o.graphs},
      source_(padded(open_draft(o, what), o, target)),
      config_(source_ ? source_->config() : target.config()),
      type_(source_ ? choose_weight_type(*source_, {}, o.activations, target.backend) : target.weight_type),
      window_(o.draft_window),
      ctx_size_(o.ctx_size) {
    options_.name = name_of(what).data();
    if (source_ && kv_lossy(o) && !quantises(config_.head_dim)) {
        log::info("the draft model's cache has f16 in place of q8_0, which its heads of {} elements cannot have",
                  config_.head_dim);
    }
}

void DraftModel::load(Device& device, const Weights& target, Comm& comm, int64_t context, int64_t slots) {
    options_.context = window_ + context;
    if (source_) {
        weights_ =
            std::make_unique<Weights>(device, *source_, make_shard(config_, 0, 1), type_.format, Progress{}, ctx_size_);
    }
    options_.cache = window_cache((source_ ? *weights_ : target).config(), window_);
    for (int64_t slot = 0; slot < slots; ++slot) {
        levels_.push_back(std::make_unique<Level>(device, source_ ? static_cast<Comm&>(alone_) : comm,
                                                  source_ ? *weights_ : target, options_));
    }
}

void DraftModel::unload() {
    levels_.clear();
    weights_.reset();
}

}  // namespace trireme
