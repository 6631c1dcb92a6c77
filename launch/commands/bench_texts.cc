#include "launch/commands/bench_texts.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "launch/flags/parse.h"
#include "launch/run/data_set.h"
#include "launch/run/prompt.h"
#include "model/tokenizer/utf8.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// The number of bytes of the text's first `characters` characters; a byte that is no part of one counts as one.
size_t bytes_of(std::string_view text, size_t characters) {
    size_t at = 0;
    for (; characters > 0 && at < text.size(); --characters) at += std::max<size_t>(utf8_length(text.substr(at)), 1);
    return at;
}

/// Reads all texts as ids, before they are cut.
std::vector<DataText> all_ids(const Options& o, const Checkpoint& files, const StillWaiting& waiting) {
    const bool special = o.add_special.value_or(true);
    if (o.prompt_from != PromptFrom::kData) {
        return {
            {.where = "the prompt", .name = "", .text = "", .ids = read_prompt(o, files.tokenizer.get(), waiting).ids}};
    }
    DataSet set = read_data(o, o.choice, waiting, o.prefill > 0 ? o.prefill : INT64_MAX);
    set.require_made_by(files.tokenizer.get(), o.add_special);
    for (DataText& t : set.texts) {
        waiting();
        const bool book = (o.dataset == "lwm" || o.dataset == "demo") && !t.ids && o.prefill > 0 && files.tokenizer;
        t.ids = book ? book_prompt(*files.tokenizer, t.text, o.prefill) : ids_of(t, files.tokenizer.get(), special);
        t.text = {};
    }
    return std::move(set.texts);
}

BenchTexts cut(const std::vector<DataText>& texts, const Options& o, const Checkpoint& files, int64_t longest,
               int64_t n) {
    require(texts.size() == 1 || o.prefill > 0, Exit::kUsage,
            "{} documents: give --prefill TOKENS, the length that they are cut to, because one row aggregates all",
            texts.size());
    BenchTexts out;
    size_t most = 0;
    for (const DataText& text : texts) {
        std::vector<int64_t> ids = text.ids.value();
        most = std::max(most, ids.size());
        if (static_cast<int64_t>(ids.size()) < o.prefill) {
            ++out.left_out;
            continue;
        }
        if (o.prefill > 0) ids.resize(static_cast<size_t>(o.prefill));
        out.ids.push_back(checked_ids(ids, files.config().vocab, INT64_MAX, Command::kBench, text.where));
    }
    require(!out.ids.empty(), Exit::kConfig, "--prefill {}: none of {} text{} is that long; the longest has {} tokens",
            o.prefill, texts.size(), texts.size() == 1 ? "" : "s", most);
    require(out.tokens() + n <= longest, Exit::kConfig,
            "the prompt has {} tokens, -n adds {}, and the context has {}: lower --prefill or -n, or raise -c",
            out.tokens(), n, longest);
    if (out.left_out > 0) {
        log::warn("{} of {} texts have fewer than {} tokens and are left out", out.left_out, texts.size(), o.prefill);
    }
    return out;
}

/// Returns rank 0's texts on every rank.
BenchTexts shared(const RankGroup& rank_group, const BenchTexts& mine) {
    std::string bytes;
    const auto put = [&](const void* from, size_t n) { bytes.append(static_cast<const char*>(from), n); };
    if (rank_group.first()) {
        const std::array<int64_t, 2> head = {mine.left_out, mine.tokens()};
        put(head.data(), sizeof head);
        for (const std::vector<int32_t>& ids : mine.ids) put(ids.data(), ids.size() * sizeof(int32_t));
    }
    rank_group.comm().broadcast(bytes);
    std::array<int64_t, 2> head = {};
    std::memcpy(head.data(), bytes.data(), sizeof head);
    BenchTexts out;
    out.left_out = head[0];
    const size_t size = static_cast<size_t>(head[1]) * sizeof(int32_t);
    for (size_t at = sizeof head; at < bytes.size(); at += size) {
        out.ids.emplace_back(static_cast<size_t>(head[1]));
        std::memcpy(out.ids.back().data(), bytes.data() + at, size);
    }
    return out;
}

}  // namespace

std::vector<int64_t> book_prompt(const Tokenizer& tokenizer, std::string_view book, int64_t prefill) {
    constexpr size_t kFirst = 3,
                     kEnd = size_t{1024} * 500;  // characters; the first three are a byte-order mark, as Latin-1
    const std::string before =
        "You are a helpful assistant. USER: Please read a part of the book below, and then give me the summary.\n"
        "[start of the book]\n";
    const std::string after =
        "\n[end of the book]\n\nNow you have read it. Please summarize it for me. First, tell me the title and the "
        "author, and then tell the story in 500 words.\n\nASSISTANT: ";
    const size_t first = bytes_of(book, kFirst);
    const std::vector<int32_t> ids =
        encode_prompt(tokenizer, book.substr(first, bytes_of(book, kEnd) - first), /*add_special=*/false);
    int64_t taken = prefill - std::ssize(encode_prompt(tokenizer, before + after, /*add_special=*/true));
    for (int tries = 0; tries < 4 && taken > 0 && taken <= std::ssize(ids); ++tries) {
        const std::string text = before + tokenizer.decode(std::span(ids).first(index(taken))) + after;
        const std::vector<int32_t> all = encode_prompt(tokenizer, text, /*add_special=*/true);
        if (std::ssize(all) == prefill) return {all.begin(), all.end()};
        taken -= std::ssize(all) - prefill;  // tokens at the ends of the book join with those around it
    }
    return {};
}

BenchTexts read_bench_texts(const Start& start, const RankGroup& rank_group, const Engine& engine, int64_t n) {
    BenchTexts mine;
    rank_group.first_only_waiting([&](const StillWaiting& waiting) {
        const Options& o = start.call.options;
        if (o.prompt_from == PromptFrom::kText && parse_integer(o.prompt)) {
            log::warn(
                "-p {}: the text itself, as of generate; for a prompt of {} tokens give a text (-f FILE) and "
                "--prefill {}",
                o.prompt, o.prompt, o.prompt);
        }
        mine = cut(all_ids(o, engine.checkpoint(), waiting), o, engine.checkpoint(), engine.longest_context(), n);
    });
    return shared(rank_group, mine);
}

}  // namespace trireme
