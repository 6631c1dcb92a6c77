// The flags of precision, machine and output files.

#include <algorithm>
#include <array>

#include "launch/flags/flag_groups.h"
#include "runtime/device.h"
#include "runtime/index.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

constexpr std::array kTypes = {DType::kF16, DType::kBF16, DType::kF32};

DType cache_type(const S& s) {
    constexpr std::array types = {DType::kF16, DType::kBF16, DType::kF32, DType::kQ8_0};
    return types[s.one_of({"f16", "bf16", "f32", "q8_0"})];
}

// Also accepts devices that a module or a test has registered.
std::string device_of(const S& s) {
    constexpr std::string_view kCard = "cuda:";
    const bool card = s.text.starts_with(kCard) && parse_integer(s.text.substr(kCard.size())).value_or(-1) >= 0;
    if (!card && device_makers().find(s.text) == nullptr) s.one_of({"auto", "cpu", "cuda", "cuda:INDEX"});
    return s.text;
}

// Takes a name or llama.cpp's number. Level 0 of llama.cpp is off; log::Level has off last.
log::Level level_of(const S& s) {
    const std::optional<int64_t> n = parse_integer(s.text);
    const bool counted = n && *n >= 0 && *n <= static_cast<int64_t>(log::Level::kOff);
    const size_t i = counted ? static_cast<size_t>(*n) : s.one_of({"off", "error", "warn", "info", "debug", "trace"});
    return static_cast<log::Level>(static_cast<size_t>(log::Level::kOff) - i);
}
std::string show_level(const O& o) {
    constexpr std::array names = {"trace", "debug", "info", "warn", "error", "off"};
    return names[index(o.log_level)];
}

void set_quantise(O& o, const S& s) {
    o.quantise = file_type_named(s.word());
    if (o.quantise != nullptr) return;
    std::string known;
    for (const FileType& type : file_types()) known += fmt::format("{}{}", known.empty() ? "" : ", ", type.name);
    fail(Exit::kConfig, "{} '{}': want one of {}", s.where, s.text, known);
}

}  // namespace

FlagGroup precision_flags() {
    return {
        "Precision",
        {
            {"dtype",
             {"--dtype", "--torch-dtype"},
             kShaped | kConvert,
             "auto|f32|f16|bf16",
             "type of the weights in memory, or that convert writes; auto: the checkpoint's; quantised "
             "weights keep their blocks; convert to a folder: f16",
             [](O& o, const S& s) {
                 const size_t i = s.one_of({"auto", "f16", "bf16", "f32"});
                 o.dtype = i == 0 ? std::nullopt : std::optional<DType>(kTypes[i - 1]);
             },
             [](const O& o) { return std::string(o.dtype ? name_of(*o.dtype) : "auto"); }},
            {"random",
             {"--random"},
             kConvert,
             "SEED",
             "random weights for a config.json (-m: it, or its folder): a model for measurements and tests",
             [](O& o, const S& s) { o.random_weights = s.any_unsigned(""); },
             [](const O& o) { return o.random_weights ? shown(*o.random_weights) : ""; },
             "the model's own weights"},
            {"quantise",
             {"--quantise", "--quantize"},
             kConvert,
             "TYPE",
             "write matrices as blocks, with the names and choices of llama-quantize: Q8_0, Q6_K, Q5_K_M, Q4_K_M, "
             "Q4_0, ...; for -o NAME.gguf and NAME.h5",
             set_quantise,
             [](const O& o) { return std::string(o.quantise == nullptr ? "" : o.quantise->name); },
             "the checkpoint's types"},
            {"activations",
             {"--activations"},
             kShaped,
             "auto|q16|q8|bf16|f16|f32",
             "quantised weights: type of the activations in products; f32: exact; q16, q8: whole numbers of 16 "
             "or 8 bits with a scale for 32, on CPUs with AVX2; auto: f16 on GPUs, the fastest of q16, bf16 and f32 on "
             "CPUs",
             [](O& o, const S& s) {
                 const size_t i = s.one_of({"auto", "f32", "f16", "bf16", "q16", "q8"});
                 o.activations = i == 0 ? std::nullopt : std::optional(kActivationTypes[i - 1]);
             },
             [](const O& o) { return std::string(o.activations ? name_of(*o.activations) : "auto"); }},
            {"cache-type-k",
             {"-ctk", "--cache-type-k"},
             kShaped,
             "f16|bf16|f32|q8_0",
             "type of the cached keys",
             [](O& o, const S& s) { o.cache_type_k = cache_type(s); },
             [](const O& o) { return std::string(name_of(o.cache_type_k)); },
             "",
             {"kv-cache-dtype"}},
            {"cache-type-v",
             {"-ctv", "--cache-type-v"},
             kShaped,
             "f16|bf16|f32|q8_0",
             "type of the cached values",
             [](O& o, const S& s) { o.cache_type_v = cache_type(s); },
             [](const O& o) { return std::string(name_of(o.cache_type_v)); },
             "",
             {"kv-cache-dtype"}},
            {"kv-cache-dtype",
             {"--kv-cache-dtype"},
             kShaped,
             "f16|bf16|f32|q8_0",
             "type of cached keys and values; q8_0 has 8 bits and a scale for 32 elements, and is lossy",
             [](O& o, const S& s) { o.cache_type_k = o.cache_type_v = cache_type(s); },
             [](const O& o) { return std::string(o.cache_type_k == o.cache_type_v ? name_of(o.cache_type_k) : ""); },
             "",
             {"cache-type-k", "cache-type-v"}},
        }};
}

FlagGroup machine_flags() {
    return {"Machine",
            {
                {"device",
                 {"--device"},
                 kShaped | kDoctor,
                 "auto|cpu|cuda[:INDEX]",
                 "where to compute (trireme --list-devices); cuda: one GPU per rank of a node, by rank number",
                 [](O& o, const S& s) { o.device = device_of(s); },
                 [](const O& o) { return o.device; }},
                {"no-graphs",
                 {"--no-graphs"},
                 kForward,
                 "",
                 "enqueue each operation of a decode step, without CUDA graphs",
                 [](O& o, const S& s) { o.graphs = !s.on(); },
                 [](const O& o) { return on_off(!o.graphs); }},
                {"threads",
                 {"-t", "--threads"},
                 kShaped | kDoctor,
                 "COUNT",
                 "compute threads per rank, 1 to 1024; capped at the CPUs available to the rank",
                 [](O& o, const S& s) { o.threads = s.integer(1, 1024); },
                 [](const O& o) { return o.threads == 0 ? "" : shown(o.threads); },
                 "the rank's share of the cores"},
                {"bind",
                 {"--bind"},
                 kPlaced,
                 "auto|none",
                 "auto: widen the launcher's binding of a rank to its share of the cores; none: leave it",
                 [](O& o, const S& s) {
                     o.bind = s.one_of({"auto", "none"}) == 0;
                 },
                 [](const O& o) { return std::string(o.bind ? "auto" : "none"); }},
                {"tensor-parallel-size",
                 {"-tp", "--tensor-parallel-size"},
                 kForward | kPlan,
                 "RANKS",
                 "refuse to run with another number of ranks (mpirun or srun sets it). plan: the ranks, unless "
                 "--ranks is given",
                 [](O& o, const S& s) { o.tensor_parallel = s.integer(1, 4096); },
                 [](const O& o) { return o.tensor_parallel == 0 ? "" : shown(o.tensor_parallel); },
                 "any number"},
            }};
}

FlagGroup output_flags() {
    return {"Output",
            {
                {"report-json",
                 {"--report-json"},
                 kGenerate,
                 "FILE",
                 "write times, bytes, settings, ids and texts as JSON; -: to stdout, which then has nothing else",
                 [](O& o, const S& s) { o.report_json = s.word(); },
                 [](const O& o) { return o.report_json; },
                 "none"},
                {"record",
                 {"--record"},
                 kForward & ~kChat,
                 "FILE",
                 "append the run to an HDF5 file: settings, machine, memory, and for each round tokens, times "
                 "and link traffic; trireme report draws it",
                 [](O& o, const S& s) { o.record = s.word(); },
                 [](const O& o) { return o.record; },
                 "not recorded"},
                {"records",
                 {"--records"},
                 kReport,
                 "FILE",
                 "files written by --record; may be repeated; words without a flag are such files",
                 [](O& o, const S& s) {
                     if (s.first) o.records.clear();
                     o.records.push_back(s.word());
                 },
                 [](const O& o) {
                     std::string all;
                     for (const std::string& file : o.records) all += (all.empty() ? "" : " ") + file;
                     return all;
                 },
                 "required",
                 {},
                 /*repeatable=*/true},
                {"dump-logits",
                 {"--dump-logits"},
                 kScore,
                 "FILE",
                 "write every logit as HDF5: dataset logits, float32 [tokens, vocab]",
                 [](O& o, const S& s) { o.dump_logits = s.word(); },
                 [](const O& o) { return o.dump_logits; },
                 "none"},
                {"trace",
                 {"--trace"},
                 kForward,
                 "FILE",
                 "write spans of all ranks, for ui.perfetto.dev",
                 [](O& o, const S& s) { o.trace = s.word(); },
                 [](const O& o) { return o.trace; },
                 "none"},
                {"force",
                 {"--force"},
                 kForward | kConvert,
                 "",
                 "overwrite files that exist (never a folder)",
                 [](O& o, const S& s) { o.force = s.on(); },
                 [](const O& o) { return on_off(o.force); }},
                {"no-progress",
                 {"--no-progress"},
                 kForward,
                 "",
                 "no progress bar, no progress lines",
                 [](O& o, const S& s) { o.no_progress = s.on(); },
                 [](const O& o) { return on_off(o.no_progress); }},
                {"quiet",
                 {"-q", "--quiet"},
                 kEvery,
                 "",
                 "only warnings and errors: same as --log-level warn --no-progress",
                 [](O& o, const S& s) {
                     if (!s.on()) return;
                     o.no_progress = true;
                     o.log_level = std::max(o.log_level, log::Level::kWarn);
                 },
                 [](const O& o) { return on_off(o.no_progress && o.log_level >= log::Level::kWarn); },
                 "",
                 {"log-level", "verbose"}},
                {"log-level",
                 {"-lv", "--log-level"},
                 kEvery,
                 "off|error|warn|info|debug|trace",
                 "log level; also by number, 0 (off) to 5 (trace)",
                 [](O& o, const S& s) { o.log_level = level_of(s); },
                 show_level,
                 "",
                 {"verbose", "quiet"}},
                {"verbose",
                 {"-v", "--verbose"},
                 kEvery,
                 "",
                 "same as --log-level debug",
                 [](O& o, const S& s) {
                     o.log_level = s.on() ? log::Level::kDebug : std::max(o.log_level, log::Level::kInfo);
                 },
                 [](const O& o) { return on_off(o.log_level <= log::Level::kDebug); },
                 "",
                 {"log-level", "quiet"}},
                {"config",
                 {"--config"},
                 kEvery,
                 "FILE",
                 "read flags from an INI file, one name = value per line",
                 [](O& o, const S& s) { o.config = s.word(); },
                 [](const O& o) { return o.config; },
                 "none"},
            }};
}

}  // namespace trireme
