#include "launch/run/session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <xxhash.h>

#include "dist/agreement.h"
#include "dist/make_comm.h"
#include "generated/commit.h"
#include "launch/flags/flags.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/run/outcome.h"
#include "launch/run/prompt.h"
#include "runtime/atomic_file.h"
#include "runtime/log.h"
#include "runtime/module.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

std::string digest(std::string_view bytes) {
    return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

// Name, type, shape and first row of every tensor: a base model and its finetune differ in what the rows hold alone.
std::string fingerprint(const WeightSource& source) {
    std::string text;
    std::vector<float> row;
    for (const TensorInfo& t : source.tensors()) {
        const bool vector = t.shape.rank() == 1;
        row.resize(static_cast<size_t>(t.shape[vector ? 0 : 1]));
        const auto n = static_cast<int64_t>(row.size());
        source.read(t.name, 0, 0, HostTensor(row.data(), DType::kF32, vector ? Shape{n} : Shape{1, n}));
        text += fmt::format("{} {} {}\n", t.name, name_of(t.type), t.shape);
        text.append(reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float));
    }
    return digest(text);
}

// What ranks would stop by, and stream, at different tokens if it differed.
std::string fingerprint(const Tokenizer& tokenizer) {
    std::string text;
    for (int32_t id = 0; id < tokenizer.vocab(); ++id) {
        text += fmt::format("{}{}\n", tokenizer.piece(id), tokenizer.is_special(id) ? " special" : "");
    }
    return digest(text);
}

// What the files say beside the tensors' shapes and rows.
void add_config(const LlamaConfig& c, const std::vector<int32_t>& eos, KeyValues& all) {
    const RopeConfig& r = c.rope;
    all.emplace_back("heads", fmt::format("{} of {}, {} KV", c.n_heads, c.head_dim, c.n_kv_heads));
    all.emplace_back("context", fmt::format("{}", c.context));
    all.emplace_back("rms_norm_eps", fmt::format("{}", c.norm_eps));
    all.emplace_back("rope_theta", fmt::format("{}", r.theta));
    all.emplace_back("rope_scaling", std::string(name_of(r.scaling)));
    const std::vector<double> numbers = {r.factor,          static_cast<double>(r.original_context),
                                         r.beta_fast,       r.beta_slow,
                                         r.truncate + 0.,   r.attention_factor,
                                         r.low_freq_factor, r.high_freq_factor};
    all.emplace_back("rope_numbers", fmt::format("{}", fmt::join(numbers, " ")));
    all.emplace_back("rope_factors", fmt::format("{}", fmt::join(r.factors, " ")));
    all.emplace_back("layer_map", c.layer_map.text());
    all.emplace_back("eos_token_id", fmt::format("{}", fmt::join(eos, " ")));
}

// The model's own, unless --tokenizer names one. Ids in, ids out: it is not needed then, but knows what ends a text.
std::unique_ptr<Tokenizer> open_tokenizer(Command command, const Options& o) {
    const bool text_out = command == Command::kGenerate && (o.print == Print::kText || !o.stop.empty());
    const bool needed = o.prompt_from != PromptFrom::kIds || text_out || !o.tokenizer.empty();
    if (needed) return load_tokenizer(o.tokenizer.empty() ? o.model : o.tokenizer);
    std::unique_ptr<Tokenizer> own;
    const Outcome loaded = attempt([&] { own = load_tokenizer(o.model); });
    if (loaded.status != 0) log::debug("goes on without a tokenizer: {}", loaded.message);
    return own;
}

std::vector<int32_t> ends_of_text(const LlamaConfig& config, const Tokenizer* tokenizer) {
    std::vector<int32_t> eos = config.eos;
    const std::vector<int32_t> more = tokenizer ? tokenizer->eos_ids() : std::vector<int32_t>();
    eos.insert(eos.end(), more.begin(), more.end());
    std::sort(eos.begin(), eos.end());
    eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
    return eos;
}

// What every rank must have been told alike. Rank 0 alone reads the prompt and writes files.
KeyValues settings(Command command, const Options& o, const Session& s) {
    constexpr std::array own = {"prompt",      "file",        "prompt-ids",  "config", "threads",
                                "bind",        "report-json", "dump-logits", "trace",  "force",
                                "no-progress", "log-level",   "verbose"};
    KeyValues all = {{"commit", TRIREME_COMMIT}, {"command", std::string(name_of(command))}};
    for (const Flag& flag : flags()) {
        if (!flag.belongs_to(command) || std::find(own.begin(), own.end(), flag.name) != own.end()) continue;
        all.emplace_back(flag.name, flag.show(o));
    }
    add_config(s.source->config(), s.eos, all);
    all.emplace_back("tensors", fingerprint(*s.source));
    all.emplace_back("tokenizer", s.tokenizer ? fingerprint(*s.tokenizer) : "none");
    all.emplace_back("weights", std::string(name_of(s.weight_type.type)));
    return all;
}

std::vector<int32_t> share_ids(const Crew& crew, std::vector<int32_t> ids) {
    std::string bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
    crew.comm().broadcast(bytes);
    ids.resize(bytes.size() / sizeof(int32_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    return ids;
}

/// How far the request can come: KV memory is for these positions, not for all that the context would allow.
int64_t positions_needed(const Options& o, Command command, int64_t prompt, int64_t context) {
    if (command == Command::kScore) return prompt;
    return o.n_predict < 0 ? context : std::min(context, prompt + o.n_predict);
}

}  // namespace

// auto: a card, if every rank has one that works.
OpenedDevice open_run_device(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    OpenedDevice opened;
    const auto open = [&](const std::string& name) {
        if (name.starts_with("cuda")) load_cuda_module();
        opened.device = open_device(
            name, {.threads = start.threads, .local_rank = start.local_rank, .local_ranks = start.local_ranks});
    };
    if (o.device != "auto") {
        crew.phase([&] { open(o.device); });
    } else {
        const Outcome tried = attempt([&] { open("cuda"); });
        const bool all = crew.comm().agree(static_cast<Exit>(tried.status)) == Exit::kOk;
        if (!all) crew.phase([&] { open("cpu"); });
        // Where no rank's node has a driver there is nothing to explain.
        const bool expected = std::ranges::max(crew.comm().gather_values<char>(has_nvidia_driver())) != 0;
        const std::string why = "no card: " + (tried.status ? tried.message : "another rank has none");
        opened.line = all ? "device " + opened.device->name() : expected ? "device cpu; " + why : "device cpu";
        if (!all && !expected) log::debug("{}", why);
    }
    // Which card a rank sees is the launcher's business: who shares one is asked, not guessed.
    const std::vector<std::string> places = device_places(crew.comm(), *opened.device);
    opened.device->shared_by(
        static_cast<int>(std::ranges::count(places, places[static_cast<size_t>(crew.comm().rank())])));
    return opened;
}

Session open_session(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    const Command command = *start.call.command;
    const uint64_t begin = trace::now();
    Session s;
    s.threads = start.threads;

    crew.first_only([&] { probe_outputs(o); });
    KeyValues told;
    OpenedDevice opened = open_run_device(start, crew);
    s.device = std::move(opened.device);
    crew.phase([&] {
        s.source = open_model(o.model);
        s.tokenizer = open_tokenizer(command, o);
        s.eos = ends_of_text(s.source->config(), s.tokenizer.get());
        s.weight_type = choose_weight_type(*s.source, o.dtype);
        if (crew.comm().size() > 1) told = settings(command, o, s);
    });
    require_agreement(crew.comm(), told);

    const int64_t context = o.ctx_size == 0 ? s.source->config().context : o.ctx_size;
    crew.first_only_waiting([&](const StillWaiting& waiting) {
        s.ids = checked_ids(read_prompt_ids(o, s.tokenizer.get(), o.add_special.value_or(true), waiting),
                            s.source->config().vocab, context, command);
    });
    s.ids = share_ids(crew, std::move(s.ids));

    s.device_comm = make_device_comm(crew.comm(), *s.device);
    Comm& comm = s.device_comm ? *s.device_comm : crew.comm();
    const ProgressSink sink = stderr_progress(crew.first() && !o.no_progress);
    const LlamaConfig& config = s.source->config();
    LevelOptions options = {.k_type = o.cache_type_k,
                            .v_type = o.cache_type_v,
                            .context = positions_needed(o, command, static_cast<int64_t>(s.ids.size()), context),
                            .graphs = o.graphs,
                            .residency = {.ring = o.kv_ring, .link = o.link, .verify = o.kv_verify}};
    s.residency = choose_residency(o, config, s.weight_type.type, options, *s.device, s.threads, crew);
    options.residency.on_chip = s.residency.plan.on_chip;
    options.residency.hidden_on_host = s.residency.plan.hidden_on_host;
    crew.phase([&] {
        ProgressMeter progress("load", "bytes", sink);
        s.weights = std::make_unique<Weights>(*s.device, *s.source, make_shard(config, comm.rank(), comm.size()),
                                              s.weight_type.type, std::ref(progress));
        s.model = std::make_unique<Level>(*s.device, comm, *s.weights, options);
    });
    s.load_ms = static_cast<double>(trace::now() - begin) * 1e-6;
    // Said only now, so that a run that cannot start says one thing: why.
    if (!opened.line.empty()) log::info("{}", opened.line);
    log::info("weights {}: {}", name_of(s.weight_type.type), s.weight_type.reason);
    log::info("{}", s.residency.line);
    for (const std::string& line : s.residency.table) log::debug("{}", line);
    log::info("{}", start.placement);
    // Spans of all ranks start here, together.
    crew.comm().barrier();
    trace::reset_totals();
    if (!o.trace.empty()) trace::start();
    return s;
}

void write_trace(const Options& o, const Crew& crew) {
    if (o.trace.empty()) return;
    const std::vector<std::string> parts = crew.comm().gather_bytes(trace::json(crew.comm().rank()));
    crew.first_only([&] {
        // Each part is an object with one array, of events: their elements go into the array of the first.
        std::string all = parts[0].substr(0, parts[0].rfind(']'));
        for (size_t r = 1; r < parts.size(); ++r) {
            const size_t from = parts[r].find('[') + 1;
            all += ',' + parts[r].substr(from, parts[r].rfind(']') - from);
        }
        all += parts[0].substr(parts[0].rfind(']'));
        write_file_atomically(o.trace, std::as_bytes(std::span(all)), o.old_outputs());
    });
}

}  // namespace trireme
