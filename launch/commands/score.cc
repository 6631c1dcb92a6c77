#include "decode/score.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launch/commands/commands.h"
#include "launch/commands/score_output.h"
#include "launch/commands/score_pairs.h"
#include "launch/record/run_record.h"
#include "launch/report/output.h"
#include "launch/report/trace_file.h"
#include "launch/run/data_set.h"
#include "launch/run/engine.h"
#include "launch/run/eviction.h"
#include "launch/run/progress.h"
#include "launch/run/prompt.h"
#include "launch/run/signals.h"
#include "model/files/json.h"
#include "model/files/store/writer.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Text {
    std::string source;  // empty: the prompt
    std::vector<int32_t> ids;
};

/// The number of tokens of a window; 0: texts are scored whole.
int64_t window_of(const Options& o, int64_t context) {
    const Options::Scoring& s = o.score;
    if (!s.in_windows()) return 0;
    const int64_t window = s.window > 0 ? s.window : context;
    const int64_t least = s.llama_rule ? 3 : 2;  // a llama chunk of 2 would score none of its ids
    require(window >= least && window <= context, Exit::kConfig,
            "--window {}: want {} to the context of {} tokens (-c)", window, least, context);
    require(s.stride <= window, Exit::kConfig,
            "--stride {}: longer than the window of {} tokens; tokens between windows would not be scored", s.stride,
            window);
    require(!s.llama_rule || s.stride == 0, Exit::kUsage,
            "--stride with --rule llama: llama-perplexity's chunks do not overlap; want --rule hf");
    return window;
}

std::vector<Text> read_texts(const Options& o, const Engine& engine, bool whole, const StillWaiting& waiting) {
    const Checkpoint& files = engine.checkpoint();
    const int64_t most = whole ? engine.longest_context() : INT64_MAX;
    const bool add_special = o.add_special.value_or(true);
    std::vector<Text> texts;
    const auto add = [&](std::string source, const std::vector<int64_t>& ids, std::string_view what) {
        const auto n = static_cast<int64_t>(ids.size());
        require(n <= most, Exit::kConfig,
                "{} has {} tokens and the context {}: score it in windows (--window {}), or raise -c", what, n, most,
                most);
        texts.push_back({std::move(source), checked_ids(ids, files.config().vocab, most, Command::kScore, what)});
    };
    if (o.prompt_from == PromptFrom::kData) {
        const DataSet set = read_data(o, o.choice, waiting);
        set.require_made_by(files.tokenizer.get(), o.add_special);
        for (const DataText& t : set.texts) add(t.name, ids_of(t, files.tokenizer.get(), add_special), t.where);
    } else {
        add("", read_prompt(o, files.tokenizer.get(), waiting).ids, "the prompt");
    }
    return texts;
}

void share(std::vector<Text>& texts, const RankGroup& rank_group) {
    std::string bytes;
    if (rank_group.first()) {
        Json all = Json::array();
        for (const Text& t : texts) all.push_back(t.ids);
        bytes = all.dump();
    }
    rank_group.comm().broadcast(bytes);
    if (rank_group.first()) return;
    for (const Json& ids : Json::parse(bytes)) texts.push_back({"", ids});
}

std::vector<ScoreWindow> windows_of(const Options& o, const Text& text, int64_t window, int32_t bos) {
    const auto n = static_cast<int64_t>(text.ids.size());
    if (window == 0) return {{.begin = 0, .end = n, .first = 1}};
    if (!o.score.llama_rule) return sliding_windows(n, window, o.score.stride > 0 ? o.score.stride : window);
    std::vector<ScoreWindow> chunks = llama_chunks(n, window, text.ids.front() == bos ? bos : -1);
    require(!chunks.empty(), Exit::kConfig,
            "--rule llama: {} tokens, fewer than a chunk of {}; want a smaller --window", n, window);
    return chunks;
}

/// The file of --dump-logits: a store with one data set. Its room on disk is reserved now.
std::unique_ptr<StoreWriter> logits_writer(const Options& o, const Engine& engine, int64_t tokens) {
    const StoreSet logits = {"logits", DType::kF32, {tokens, engine.checkpoint().config().vocab}};
    return std::make_unique<StoreWriter>(o.dump_logits, o.old_outputs(), "logits", std::vector{logits}, "{}");
}

/// Appends rows, which may have gaps between them.
void append(StoreWriter& writer, const HostTensor& rows) {
    for (int64_t r = 0; r < rows.rows(); ++r) {
        const HostTensor row = rows.slice_rows(r, 1);
        writer.append(0, {static_cast<const std::byte*>(row.data()), row.bytes()});
    }
}

}  // namespace

void run_score(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    if (o.scores_pairs()) return run_score_pairs(start, rank_group);
    rank_group.phase([&] {
        require(o.dump_logits.empty() || !o.score.in_windows(), Exit::kUsage,
                "--dump-logits with --window: want one document without windows");
    });
    rank_group.first_only([&] { probe_score_outputs(o); });
    Engine engine(start, rank_group);
    const int64_t window = window_of(o, engine.longest_context());
    std::vector<Text> texts;
    rank_group.first_only_waiting(
        [&](const StillWaiting& waiting) { texts = read_texts(o, engine, window == 0, waiting); });
    share(texts, rank_group);
    const Tokenizer* tokenizer = engine.checkpoint().tokenizer.get();
    int64_t longest = 0, ids = 0, windows = 0, scored = 0;
    for (const Text& t : texts) {
        ids += static_cast<int64_t>(t.ids.size());
        longest = std::max(longest, static_cast<int64_t>(t.ids.size()));
    }
    std::vector<std::vector<ScoreWindow>> parts;
    rank_group.phase([&] {
        const int32_t bos = tokenizer ? tokenizer->bos() : -1;
        for (const Text& t : texts) parts.push_back(windows_of(o, t, window, bos));
    });
    const int64_t positions = window == 0 ? longest : std::min(longest, window);
    engine.load(start, rank_group, positions, positions);
    warn_of_unused_eviction(o, engine.eviction(), positions);
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());

    std::unique_ptr<StoreWriter> dump;
    rank_group.first_only([&] {
        if (!o.dump_logits.empty()) dump = logits_writer(o, engine, ids);
    });
    EachLogits keep;
    if (!o.dump_logits.empty()) {
        keep = [&](int64_t, const HostTensor& logits) {
            if (dump) append(*dump, logits);
        };
    }
    // As during generation, a policy evicts after every token, unless the text is read in chunks.
    const int64_t prompt = engine.eviction().evicts() && o.eviction.chunk == 0 ? 1 : INT64_MAX;
    double sum = 0;
    std::string arrays;
    {
        ProgressMeter progress("score", "tokens", stderr_progress(rank_group.first() && !o.no_progress));
        for (size_t i = 0; i < texts.size(); ++i) {
            const Text& t = texts[i];
            const Score s = score(engine.model(), t.ids, parts[i], prompt, keep, std::ref(progress));
            windows += static_cast<int64_t>(parts[i].size());
            scored += static_cast<int64_t>(s.logprobs.size());
            sum += s.sum;
            if (o.output_path.empty() || !rank_group.first()) continue;
            OrderedJson line;
            if (!t.source.empty()) line["source"] = t.source;
            line["tokens"] = t.ids;
            line["logprobs"] = s.logprobs;
            line["perplexity"] = s.perplexity();
            arrays +=
                line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";  // doubles keep all digits
        }
    }
    remember_signals();  // from now on results are written even if a signal comes
    const double perplexity = std::exp(-sum / static_cast<double>(scored));
    log::info("{} tokens, perplexity {:.6f}", ids, perplexity);

    OrderedJson summary = {{"tokens", ids}, {"scored", scored}, {"logprob", sum}, {"perplexity", perplexity}};
    if (texts.size() > 1 || !texts.front().source.empty()) summary["texts"] = texts.size();
    if (window > 0) {
        summary["rule"] = o.score.llama_rule ? "llama" : "hf";
        summary["window"] = window;
        if (!o.score.llama_rule) summary["stride"] = o.score.stride > 0 ? o.score.stride : window;
        summary["windows"] = windows;
    }
    rank_group.first_only([&] {
        // stdout comes first: if the disk is full, the result is still printed.
        write_score(o, summary.dump() + "\n", arrays);
        if (dump) dump->publish();
    });
    write_trace(o, rank_group);
    write_score_record(start, rank_group, engine, ids, {{"tokens", ids}, {"perplexity", perplexity}});
}

}  // namespace trireme
