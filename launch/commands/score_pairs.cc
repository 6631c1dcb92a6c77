#include "launch/commands/score_pairs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include <nlohmann/json.hpp>

#include "launch/commands/pair_scorer.h"
#include "launch/commands/score_output.h"
#include "launch/flags/text_file.h"
#include "launch/record/run_record.h"
#include "launch/report/trace_file.h"
#include "launch/run/data_choice.h"
#include "launch/run/data_set.h"
#include "launch/run/engine.h"
#include "launch/run/eviction.h"
#include "launch/run/progress.h"
#include "launch/run/prompt.h"
#include "launch/run/signals.h"
#include "model/files/json.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostPairBytes = size_t{1} << 30;  // of all pairs

/// The string under `key`.
std::string text_of(const Json& line, const char* key, const std::string& where) {
    require(line.is_object() && line.contains(key) && line[key].is_string(), Exit::kData,
            "{}: no text '{}'; want an object with context and continuation", where, key);
    return line[key].get<std::string>();
}

/// Calls `make`. Its error becomes the pair's error, unless --strict is given.
template <class Make>
Pair pair_or_error(const Options& o, const Make& make) {
    try {
        return make();
    } catch (const Error& e) {
        if (o.score.strict || (e.code() != Exit::kData && e.code() != Exit::kConfig)) throw;
        return {.ids = {}, .error = e.what()};
    }
}

std::vector<Pair> pairs_of_lines(const Options& o, const Engine& engine, const StillWaiting& waiting) {
    const std::string text = read_text_file_or_stdin(o.data, kMostPairBytes, waiting);
    const Tokenizer* tokenizer = engine.checkpoint().tokenizer.get();
    std::vector<std::pair<std::string_view, int64_t>> lines;
    for_lines(text, [&](std::string_view line, int64_t number) { lines.emplace_back(line, number); });
    require(!lines.empty(), Exit::kNoInput, "{}: holds no pairs of context and continuation", o.data);
    require(tokenizer != nullptr, Exit::kNoInput, "{}: texts, and the model brings no tokenizer; give --tokenizer PATH",
            o.data);
    std::vector<Pair> pairs;
    for (const int64_t i : chosen(static_cast<int64_t>(lines.size()), o.choice, o.data, "pairs")) {
        waiting();
        const auto& [line, number] = lines[index(i)];
        const std::string where = fmt::format("{}:{}", o.data, number);
        pairs.push_back(pair_or_error(o, [&, line = line] {
            const Json json = parse_json(line, where);
            Pair pair = encode_pair(*tokenizer, text_of(json, "context", where), text_of(json, "continuation", where),
                                    o.add_special.value_or(true), where);
            checked_ids({pair.ids.begin(), pair.ids.end()}, engine.checkpoint().config().vocab, INT64_MAX,
                        Command::kScore, where);
            cut_pair(pair, engine.longest_context(), where);
            return pair;
        }));
    }
    return pairs;
}

/// Reads the texts of a store: every token but the first belongs to the continuation.
std::vector<Pair> pairs_of_store(const Options& o, const Engine& engine, const StillWaiting& waiting) {
    const DataSet set = read_data(o, o.choice, waiting);
    set.require_made_by(engine.checkpoint().tokenizer.get(), o.add_special);
    std::vector<Pair> pairs;
    for (const DataText& t : set.texts) {
        pairs.push_back(pair_or_error(o, [&] {
            return Pair{.ids = checked_ids(t.ids.value(), engine.checkpoint().config().vocab, engine.longest_context(),
                                           Command::kScore, t.where),
                        .begin = 1};
        }));
    }
    return pairs;
}

/// Sends rank 0's pairs to every rank.
void share(std::vector<Pair>& pairs, const RankGroup& rank_group) {
    std::string bytes;
    if (rank_group.first()) {
        Json all = Json::array();
        for (const Pair& p : pairs) all.push_back({p.begin, p.ids});
        bytes = all.dump();
    }
    rank_group.comm().broadcast(bytes);
    if (rank_group.first()) return;
    for (const Json& p : Json::parse(bytes)) pairs.push_back({.ids = p.at(1), .begin = p.at(0)});
}

}  // namespace

void run_score_pairs(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    const bool evicts = o.eviction.policy != KvPolicy::kFull;
    require(!evicts || o.eviction.budget_share == 0, Exit::kUsage,
            "--kv-window {}: a share of each context, and pairs share one cache; want a number of tokens",
            o.eviction.budget_share);
    require(o.dump_logits.empty(), Exit::kUsage, "--dump-logits with --data: want one document (-f, -p, --prompt-ids)");
    rank_group.first_only([&] { probe_score_outputs(o); });
    Engine engine(start, rank_group);
    std::vector<Pair> pairs;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        pairs = is_data_store(o.data) ? pairs_of_store(o, engine, waiting) : pairs_of_lines(o, engine, waiting);
        const Pair* wrong = nullptr;
        for (const Pair& p : pairs) wrong = p.ids.empty() ? &p : wrong;
        const bool any = std::ranges::any_of(pairs, [](const Pair& p) { return !p.ids.empty(); });
        require(any, Exit::kData, "no pair can be scored; the last one: {}", wrong == nullptr ? "" : wrong->error);
    });
    share(pairs, rank_group);
    int64_t longest = 2, prompt = 1;
    for (const Pair& p : pairs) {
        longest = std::max(longest, static_cast<int64_t>(p.ids.size()) - 1);
        prompt = std::max(prompt, p.begin);
    }
    int64_t loaded_for = evicts ? prompt : longest;
    engine.load(start, rank_group, longest, loaded_for);
    warn_of_unused_eviction(o, engine.eviction(), longest);
    if (start.seed_drawn) log::info("seed {}, drawn for this run (--seed -1)", o.seed.value());
    PairScorer scorer(engine);
    ProgressMeter progress("score", "pairs", stderr_progress(rank_group.first() && !o.no_progress));
    int64_t index = 0, scored = 0, greedy = 0, tokens = 0, truncated = 0;
    double logprob = 0;
    std::string lines;
    const auto put = [&](const OrderedJson& line) {
        lines += line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
        progress(++index, std::ssize(pairs));
    };
    std::vector<const Pair*> all;
    for (const Pair& pair : pairs) all.push_back(&pair);
    for (std::span<const Pair* const> left = all; !left.empty();) {
        const Pair& first = *left.front();
        if (first.ids.empty()) {
            if (rank_group.first()) log::warn("{}", first.error);
            put({{"index", index}, {"error", first.error}});
            left = left.subspan(1);
            continue;
        }
        if (const int64_t now = prompt_to_load(o, first.begin, prompt); evicts && now != loaded_for) {
            engine.load(start, rank_group, longest, now);
            scorer.forget();
            loaded_for = now;
        }
        const auto group = left.first(scorer.together(left));
        left = left.subspan(group.size());
        const std::vector<Score> scores = scorer.score(group);
        for (size_t i = 0; i < group.size(); ++i) {
            greedy += scores[i].greedy ? 1 : 0;
            logprob += scores[i].sum;
            tokens += std::ssize(scores[i].logprobs);
            truncated += group[i]->truncated ? 1 : 0;
            ++scored;
            put(pair_result(index, *group[i], scores[i]));
        }
    }
    remember_signals();  // from now on results are written even if a signal comes
    const double perplexity = std::exp(-logprob / static_cast<double>(tokens));
    log::info("{} pairs, {} continuations are the greedy ones; perplexity {:.6f} over their {} tokens", scored, greedy,
              perplexity, tokens);
    if (truncated > 0) log::warn("{} pairs are longer than the context; their first tokens were cut", truncated);
    if (scored < index) log::warn("{} of {} pairs could not be scored", index - scored, index);
    const OrderedJson summary = {{"pairs", index},          {"scored", scored}, {"truncated", truncated},
                                 {"greedy", greedy},        {"tokens", tokens}, {"logprob", logprob},
                                 {"perplexity", perplexity}};
    rank_group.first_only([&] { write_score(o, o.output_path.empty() ? lines : summary.dump() + "\n", lines); });
    write_trace(o, rank_group);
    write_score_record(start, rank_group, engine, -1, {{"pairs", scored}, {"greedy", greedy}, {"logprob", logprob}});
}

}  // namespace trireme
