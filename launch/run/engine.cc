#include "launch/run/engine.h"

#include <functional>

#include "dist/make_comm.h"
#include "launch/flags/flag_groups.h"
#include "launch/flags/modes.h"
#include "launch/run/eviction.h"
#include "launch/run/progress.h"
#include "launch/run/settings.h"
#include "launch/run/sharing.h"
#include "model/evicting_kv.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// Whether a sequence is truncated to its prompt.
bool returns(Command command, const Options& o) {
    return o.num_samples > 1 || command == Command::kBench;
}

}  // namespace

Engine::Engine(const Start& start, const RankGroup& rank_group) : threads_(start.threads) {
    const uint64_t begin = trace::now();
    const Options& o = start.call.options;
    const Command command = *start.call.command;
    device_ = open_run_device(start, rank_group);
    rank_group.phase([&] {
        checkpoint_ = open_checkpoint(command, o, device().backend());
        require_kv_types(o, checkpoint_.config().head_dim);
        wire_ = choose_kv_wire(o, checkpoint_.config().head_dim, device().backend());
        if (const std::vector<Options> chains = chains_of(command, o); !chains.empty()) {
            proposing_ = std::make_unique<SpecLevels>(chains, /*again=*/command == Command::kBench, checkpoint_);
        }
        // settings() reads a row of every tensor, so it is called only if its result is compared.
        if (rank_group.comm().size() > 1 || o.snapshots() || command == Command::kBatch || command == Command::kChat)
            settings_ = trireme::settings(command, o, checkpoint_, proposing_.get());
    });
    require_agreement(rank_group.comm(), settings_);
    // Rolling positions stay within the model's context, however long the sequence is.
    const bool rolls = o.eviction.policy != KvPolicy::kFull && o.eviction.rolling;
    longest_context_ = o.ctx_size > 0 ? o.ctx_size : rolls ? kMostTokens : checkpoint_.config().context;
    load_ms_ = trace::ms_since(begin);
}

LevelOptions Engine::level_options(const Options& o, int64_t context, int64_t prompt_tokens,
                                   const SideBySide& beside) const {
    LevelOptions options = {
        .k_type = o.cache_type_k,
        .v_type = o.cache_type_v,
        .context = context,
        .sequences = beside.texts,
        .graphs = o.graphs,
        .residency = {.ring = o.kv_ring, .link = o.link, .verify = o.kv_verify, .coded = wire_.coded},
        .passes = o.passes};
    if (beside.texts > 1 && beside.of_one_prompt) options.common = common_tokens(prompt_tokens, context);
    return options;
}

void Engine::load(const Start& start, const RankGroup& rank_group, int64_t context, int64_t prompt_tokens,
                  const SideBySide& beside) {
    const uint64_t begin = trace::now();
    const Options& o = start.call.options;
    // Frees what an earlier load() allocated, except the target's weights.
    const bool first = weights_ == nullptr;
    if (proposing_) proposing_->unload();
    model_.reset();
    const LlamaConfig& config = checkpoint_.config();
    const WeightType& type = checkpoint_.weight_type;
    if (first) device_comm_ = make_device_comm(rank_group.comm(), device());
    Comm& comm = device_comm_ ? *device_comm_ : rank_group.comm();
    LevelOptions options = level_options(o, context, prompt_tokens, beside);
    rank_group.phase([&] {
        eviction_ = eviction_shape(o, config, prompt_tokens, returns(*start.call.command, o));
        if (proposing_) proposing_->want(chains_of(*start.call.command, o), prompt_tokens);
    });
    if (eviction_.evicts() && beside.texts > 1) {
        options.common = 0;      // every sequence retains tokens of its own
        options.graphs = false;  // ParallelCache
    }
    options.residency.by_layers = proposing_ && proposing_->heavy().evicts();
    const bool scores_text = *start.call.command == Command::kScore && !o.scores_pairs();
    if (scores_text && eviction_.chunk == 0) eviction_.chunk = 1;  // one token at a time
    residency_ = choose_residency({.flags = o,
                                   .config = config,
                                   .weights = type.format,
                                   .options = options,
                                   .device = device(),
                                   .threads = threads_,
                                   .eviction = eviction_,
                                   .proposing = proposing_.get()},
                                  rank_group);
    options.residency.on_chip = residency_.plan.on_chip;
    options.residency.frames = residency_.plan.frames;
    options.residency.hidden_on_host = residency_.plan.hidden_on_host;
    rank_group.phase([&] {
        if (first) {
            ProgressMeter progress("load", "bytes", stderr_progress(rank_group.first() && !o.no_progress));
            weights_ =
                std::make_unique<Weights>(device(), *checkpoint_.source, make_shard(config, comm.rank(), comm.size()),
                                          type.format, std::ref(progress), longest_context_);
        }
        if (eviction_.evicts()) options.cache = evicting_cache(weights_->config(), weights_->shard(), eviction_, comm);
        model_ = std::make_unique<Level>(device(), comm, *weights_, options);
        if (proposing_) proposing_->load(device(), *model_, comm, context);
    });
    load_ms_ += trace::ms_since(begin);
    // Logged only now, so that a run that cannot start prints the reason alone.
    if (first && !device_.line.empty()) log::info("{}", device_.line);
    if (first && comm.size() > 1 && !device_comm_) log::info("ranks add through {}", comm.name());
    if (first) log::info("weights {}: {}", type.name, type.reason);
    if (const RopeConfig& r = config.rope; first && r.scaling == RopeScaling::kLongrope) {
        log::info("longrope: {} factors, for a context of {} (-c; original: {})",
                  longest_context_ > r.original_context ? "long" : "short", longest_context_, r.original_context);
    }
    if (const std::string line = describe_sharing(config, o.passes); first && !line.empty()) log::info("{}", line);
    log::info("{}", residency_.line);
    if (residency_.plan.streamed_layers > 0) {
        log::info("streamed tiles are {}: {}", wire_.coded ? "coded" : "not coded", wire_.reason);
    }
    if (o.link.gbps > 0 && residency_.plan.streamed_layers == 0 && *start.call.command != Command::kBench) {
        log::warn("--link-gbps has no effect here: no layer is streamed");
    }
    if (eviction_.evicts()) log::info("{}", describe(eviction_, config));
    if (proposing_ && proposing_->heavy().evicts()) log::info("{}", describe(proposing_->heavy(), config, "--spec"));
    for (const std::string& line : residency_.table) log::debug("{}", line);
    if (!first) return;
    log::info("{}", start.placement);
    // All ranks start their trace totals and spans together.
    rank_group.comm().barrier();
    trace::reset_totals();
    if (!o.trace.empty()) trace::start();
}

int64_t Engine::most_side_by_side(const Start& start, const RankGroup& rank_group, int64_t context,
                                  int64_t prompt_tokens, bool of_one_prompt, int64_t at_most) const {
    const Options& o = start.call.options;
    const LevelOptions options = level_options(o, context, prompt_tokens, {.texts = 2, .of_one_prompt = of_one_prompt});
    const Command command = *start.call.command;
    EvictionShape eviction;
    rank_group.phase([&] {
        eviction = eviction_shape(o, checkpoint_.config(), prompt_tokens, returns(command, o));
        if (!proposing_) return;
        proposing_->unload();
        proposing_->want(chains_of(command, o), prompt_tokens);
    });
    return most_texts({.flags = o,
                       .config = checkpoint_.config(),
                       .weights = checkpoint_.weight_type.format,
                       .options = options,
                       .device = *device_.device,
                       .threads = threads_,
                       .eviction = eviction,
                       .proposing = proposing_.get()},
                      rank_group, at_most);
}

}  // namespace trireme
