#include "launch/commands/score_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "launch/record/run_record.h"
#include "launch/report/output.h"
#include "launch/report/progress.h"
#include "launch/report/trace_file.h"
#include "launch/run/data_choice.h"
#include "launch/run/data_set.h"
#include "launch/run/engine.h"
#include "launch/run/prompt.h"
#include "launch/run/signals.h"
#include "launch/run/text_file.h"
#include "model/files/json.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr size_t kMostPairBytes = size_t{1} << 30;  // of all pairs

/// Ids of a context and, from `begin` on, of its continuation.
struct Pair {
    std::vector<int32_t> ids;
    int64_t begin = 0;
};

/// The text of one key.
std::string text_of(const Json& line, const char* key, const std::string& where) {
    require(line.is_object() && line.contains(key) && line[key].is_string(), Exit::kData,
            "{}: no text '{}'; want an object with context and continuation", where, key);
    return line[key].get<std::string>();
}

// As lm-evaluation-harness has it: blanks at the context's end belong to the continuation, whose tokens are those of
// the whole text behind the context's own. A context without tokens is the token that begins texts.
Pair encode(const Tokenizer& tokenizer, std::string context, std::string continuation, bool add_special,
            const std::string& where) {
    const size_t end = context.find_last_not_of(" \t\n\r\f\v") + 1;
    continuation = context.substr(end) + continuation;
    context.resize(end);
    Pair pair = {.ids = encode_prompt(tokenizer, context + continuation, add_special)};
    pair.begin = static_cast<int64_t>(encode_prompt(tokenizer, context, add_special).size());
    const auto n = static_cast<int64_t>(pair.ids.size());
    require(pair.begin < n, Exit::kData, "{}: the continuation has no tokens", where);
    require(pair.begin > 0, Exit::kData,
            "{}: the context has no tokens, and the tokenizer begins texts with none; give a context", where);
    return pair;
}

std::vector<Pair> pairs_of_lines(const Options& o, const Engine& engine, const StillWaiting& waiting) {
    const std::string text = read_text_file_or_stdin(o.data, kMostPairBytes, waiting);
    const Tokenizer* tokenizer = engine.checkpoint().tokenizer.get();
    std::vector<std::pair<std::string_view, int64_t>> lines;
    for_lines(text, [&](std::string_view line, int64_t number) { lines.emplace_back(line, number); });
    require(!lines.empty(), Exit::kNoInput, "{}: holds no pairs of context and continuation", o.data);
    std::vector<Pair> pairs;
    for (const int64_t i : chosen(static_cast<int64_t>(lines.size()), o.choice, o.data, "pairs")) {
        waiting();
        const auto& [line, number] = lines[static_cast<size_t>(i)];
        const std::string where = fmt::format("{}:{}", o.data, number);
        const Json json = parse_json(line, where);
        require(tokenizer != nullptr, Exit::kNoInput,
                "{}: a text, and the model brings no tokenizer; give --tokenizer PATH", where);
        pairs.push_back(encode(*tokenizer, text_of(json, "context", where), text_of(json, "continuation", where),
                               o.add_special.value_or(true), where));
        checked_ids({pairs.back().ids.begin(), pairs.back().ids.end()}, engine.checkpoint().config().vocab,
                    engine.longest_context(), Command::kScore, where);
    }
    return pairs;
}

/// Texts of a store: all behind the first token is continuation, as lm-evaluation-harness has it of rolling windows.
std::vector<Pair> pairs_of_store(const Options& o, const Engine& engine, const StillWaiting& waiting) {
    const DataSet set = read_data(o, o.choice, waiting);
    set.require_made_by(engine.checkpoint().tokenizer.get(), o.add_special);
    std::vector<Pair> pairs;
    for (const DataText& t : set.texts) {
        pairs.push_back({.ids = checked_ids(t.ids.value(), engine.checkpoint().config().vocab, engine.longest_context(),
                                            Command::kScore, t.where),
                         .begin = 1});
    }
    return pairs;
}

/// What rank 0 has read, on every rank.
void share(std::vector<Pair>& pairs, const Crew& crew) {
    std::string bytes;
    if (crew.first()) {
        Json all = Json::array();
        for (const Pair& p : pairs) all.push_back({p.begin, p.ids});
        bytes = all.dump();
    }
    crew.comm().broadcast(bytes);
    if (crew.first()) return;
    for (const Json& p : Json::parse(bytes)) pairs.push_back({.ids = p.at(1), .begin = p.at(0)});
}

struct Likelihood {
    double logprob = 0;
    bool greedy = true;  // each token of the continuation is the likeliest one
};

Likelihood score(Level& model, const Pair& pair) {
    Likelihood all;
    model.truncate(0, 0);
    const std::span<const int32_t> ids(pair.ids);
    model.prefill(0, ids.first(ids.size() - 1), {}, [&](int64_t position, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = std::max<int64_t>(0, pair.begin - 1 - position); r < m.rows; ++r) {
            const auto wanted = static_cast<int64_t>(ids[static_cast<size_t>(position + r + 1)]);
            const float* row = m.row(r);
            const auto top = static_cast<double>(*std::max_element(row, row + m.cols));
            double sum = 0;
            for (int64_t c = 0; c < m.cols; ++c) sum += std::exp(static_cast<double>(row[c]) - top);
            all.logprob += static_cast<double>(row[wanted]) - top - std::log(sum);
            all.greedy = all.greedy && std::max_element(row, row + m.cols) - row == wanted;
        }
    });
    require(std::isfinite(all.logprob), Exit::kData,
            "score: a log probability is not finite: the weights overflow in this precision; try f32 weights");
    return all;
}

}  // namespace

void run_score_pairs(const Start& start, const Crew& crew) {
    const Options& o = start.call.options;
    require(o.bounded.policy == KvPolicy::kFull, Exit::kUsage,
            "--kv-policy {} beside --data: pairs are scored with all keys and values; want --kv-policy full",
            name_of(o.bounded.policy));
    require(o.dump_logits.empty(), Exit::kUsage, "--dump-logits beside --data: want one text (-f, -p, --prompt-ids)");
    crew.first_only([&] { probe_outputs(o); });
    Engine engine(start, crew);
    std::vector<Pair> pairs;
    crew.first_only_waiting([&](const StillWaiting& waiting) {
        pairs = is_data_store(o.data) ? pairs_of_store(o, engine, waiting) : pairs_of_lines(o, engine, waiting);
    });
    share(pairs, crew);
    int64_t longest = 0;
    for (const Pair& p : pairs) longest = std::max(longest, static_cast<int64_t>(p.ids.size()));
    engine.load(start, crew, longest, longest);
    ProgressMeter progress("score", "pairs", stderr_progress(crew.first() && !o.no_progress));
    int64_t done = 0, greedy = 0, tokens = 0;
    double logprob = 0;
    std::string lines;
    for (const Pair& pair : pairs) {
        const Likelihood one = score(engine.model(), pair);
        greedy += one.greedy ? 1 : 0;
        logprob += one.logprob;
        tokens += static_cast<int64_t>(pair.ids.size()) - pair.begin;
        const nlohmann::ordered_json line = {{"index", done},
                                             {"logprob", one.logprob},
                                             {"greedy", one.greedy},
                                             {"tokens", static_cast<int64_t>(pair.ids.size()) - pair.begin}};
        lines += line.dump() + "\n";
        progress(++done, static_cast<int64_t>(pairs.size()));
    }
    remember_signals();  // from here on results are written even if a signal comes
    crew.first_only([&] { TextOut(STDOUT_FILENO).write(lines); });
    log::info("{} pairs, {} continuations are the greedy ones; perplexity {:.6f} over their {} tokens", pairs.size(),
              greedy, std::exp(-logprob / static_cast<double>(tokens)), tokens);
    write_trace(o, crew);
    write_score_record(start, crew, engine, -1, {{"pairs", pairs.size()}, {"greedy", greedy}, {"logprob", logprob}});
}

}  // namespace trireme
