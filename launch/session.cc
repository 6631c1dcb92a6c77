#include "launch/session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <xxhash.h>

#include "dist/agreement.h"
#include "generated/commit.h"
#include "launch/flags.h"
#include "launch/output.h"
#include "launch/progress.h"
#include "launch/prompt.h"
#include "runtime/atomic_file.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

void probe_outputs(const Options& o) {
    const std::array<std::pair<std::string_view, const std::string*>, 3> files = {
        {{"--report-json", &o.report_json}, {"--dump-logits", &o.dump_logits}, {"--trace", &o.trace}}};
    for (size_t i = 0; i < files.size(); ++i) {
        probe_output(files[i].first, *files[i].second, o.force);
        for (size_t j = 0; j < i; ++j) {
            require(files[i].second->empty() || *files[i].second != *files[j].second, Exit::kUsage,
                    "{} and {} name the same file {}", files[j].first, files[i].first, *files[i].second);
        }
    }
}

// Names, types and shapes of all tensors: enough to tell one checkpoint's files from another's.
std::string fingerprint(const WeightSource& source) {
    std::string text;
    for (const TensorInfo& t : source.tensors()) {
        text += fmt::format("{} {} {}\n", t.name, name_of(t.type), t.shape.str());
    }
    return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
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
    all.emplace_back("tensors", fingerprint(*s.source));
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

}  // namespace

Session open_session(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    const Command command = *start.call.command;
    const uint64_t begin = trace::now();
    Session s;
    s.threads = start.threads;

    crew.first_only([&] { probe_outputs(o); });
    crew.phase([&] {
        s.device = open_device(o.device, start.threads);
        s.source = open_model(o.model);
        const bool text_out = command == Command::kGenerate && (o.print == Print::kText || !o.stop.empty());
        if (o.prompt_from != PromptFrom::kIds || text_out || !o.tokenizer.empty()) {
            s.tokenizer = load_tokenizer(o.tokenizer.empty() ? o.model : o.tokenizer);
        }
        s.weight_type = choose_weight_type(*s.source, o.dtype, cpu_has_bf16_dot_products());
    });
    require_agreement(crew.comm(), settings(command, o, s));

    const int64_t context = o.ctx_size == 0 ? s.source->config().context : o.ctx_size;
    crew.first_only([&] {
        s.ids = checked_ids(read_prompt_ids(o, s.tokenizer.get(), o.add_special.value_or(true)),
                            s.source->config().vocab, context, command);
    });
    s.ids = share_ids(crew, std::move(s.ids));

    const ProgressSink sink = stderr_progress(crew.first() && !o.no_progress);
    crew.phase([&] {
        ProgressMeter progress("load", "bytes", sink);
        const LlamaOptions options = {
            .weights = s.weight_type.type, .k_type = o.cache_type_k, .v_type = o.cache_type_v, .context = context};
        s.model = std::make_unique<Llama>(*s.device, crew.comm(), *s.source, options, std::ref(progress));
    });
    s.load_ms = static_cast<double>(trace::now() - begin) * 1e-6;
    // Said only now, so that a run that cannot start says one thing: why.
    log::info("weights {}: {}", name_of(s.weight_type.type), s.weight_type.reason);
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
        write_file_atomically(o.trace, std::as_bytes(std::span(all)));
    });
}

}  // namespace trireme
