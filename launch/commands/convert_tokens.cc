#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "launch/commands/commands.h"
#include "launch/report/output.h"
#include "launch/run/data_files.h"
#include "launch/run/outcome.h"
#include "launch/run/signals.h"
#include "model/tokenizer/token_store.h"
#include "runtime/log.h"

namespace trireme {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Runs `work` on its own thread and returns its result: encoding a long text takes minutes.
template <class Work>
auto waiting_for(const StillWaiting& waiting, const Work& work) {
    auto result = std::async(std::launch::async, work);
    while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) waiting();
    return result.get();
}

/// Bytes that no token represents, over all texts.
struct Lost {
    int64_t texts = 0, bytes = 0;
    std::string first;  // the first such text

    void add(const std::string& where, int64_t of_text) {
        if (of_text == 0) return;
        if (texts++ == 0) first = where;
        bytes += of_text;
    }
    void warn() const {
        if (texts == 0) return;
        log::warn("{} bytes of {} texts are left out: this tokenizer has no token for them; the first text is {}",
                  bytes, texts, first);
    }
};

std::vector<int32_t> ids_of(DataText& t, const Tokenizer& tokenizer, bool add_special, Lost& lost,
                            const StillWaiting& waiting) {
    if (!t.ids) {
        constexpr size_t kShort = size_t{1} << 16;  // bytes: encoded before a thread would have started
        const auto encoded = [&] {
            return std::pair(tokenizer.encode(t.text, add_special), tokenizer.left_out(t.text).bytes);
        };
        auto [ids, left_out] = t.text.size() < kShort ? encoded() : waiting_for(waiting, encoded);
        lost.add(t.where, left_out);
        return std::move(ids);
    }
    const auto wrong = std::ranges::find_if(*t.ids, [&](int64_t id) { return id < 0 || id >= tokenizer.vocab(); });
    require(wrong == t.ids->end(), Exit::kConfig,
            "{}: input_ids: id {} at index {} is outside the vocabulary: want 0 to {}", t.where,
            wrong == t.ids->end() ? 0 : *wrong, wrong - t.ids->begin(), tokenizer.vocab() - 1);
    return {t.ids->begin(), t.ids->end()};
}

void write_tokens(const Options& o, const StillWaiting& waiting) {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(o.tokenizer.empty() ? o.model : o.tokenizer);
    const bool add_special = o.add_special.value_or(true);
    TokenStoreWriter store(o.output_path, o.old_outputs(), TokenizerIdentity::of(*tokenizer), add_special);
    Lost lost;
    log::debug("reads texts of {}", o.tokens);
    auto told = SteadyClock::now();
    for_texts(o.tokens, waiting, [&](DataText t) {
        waiting();
        store.add(t.name, ids_of(t, *tokenizer, add_special, lost, waiting));
        if (!o.no_progress && SteadyClock::now() - told > std::chrono::seconds(10)) {
            told = SteadyClock::now();
            log::info("{} tokens of {} texts so far, the last is {}", store.tokens(), store.texts(), t.where);
        }
        return true;
    });
    require(store.texts() > 0, Exit::kNoInput, "{}: {}", o.tokens,
            is_folder(o.tokens) ? "its files have no lines" : "has no lines");
    lost.warn();
    remember_signals();  // before this line signals end the run at once: no file has its name yet
    store.publish([&] {
        waiting();
        if (const int number = remembered_signal(); number != 0) {
            log::info("stopped by signal {}: {} is not written", number, o.output_path);
            throw Stopped{128 + number};
        }
    });
    log::info("{}: {} tokens of {} texts", o.output_path, store.tokens(), store.texts());
}

}  // namespace

void run_convert_tokens(const Start& start, const RankGroup& rank_group) {
    const Options& o = start.call.options;
    rank_group.first_only([&] {
        require(o.layer_map.empty() && !o.average, Exit::kUsage,
                "--tokens with --layer-map or --average: a model is converted without --tokens");
        probe_outputs(o);
        probe_output("--output-path", o.output_path, o.force);
    });
    // Only rank 0 has results to lose; the others wait for it.
    if (!rank_group.first()) remember_signals();
    rank_group.first_only_waiting([&](const StillWaiting& waiting) { write_tokens(o, waiting); });
}

}  // namespace trireme
