#pragma once
/// What a run with --record keeps of its rounds while it decodes. Without --record every call returns at once, and
/// nothing is allocated.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/speculate.h"
#include "launch/run/engine.h"

namespace trireme {

// Rows of the tables of a run. Times are nanoseconds; `_at` since the log was made. -1: not measured, or of several.

inline int64_t ns_of(double ms) {
    return static_cast<int64_t>(ms * 1e6);
}

/// A continuation: of a turn, a request, a sample, a repetition.
struct TextRow {
    int64_t mode = 0, text = 0, sample = 0;
    int64_t side_by_side = 1;  // samples that the row is of
    int64_t prompt_tokens = 0, new_tokens = 0;
    int64_t prefill_ns = -1, ttft_ns = -1, decode_ns = -1;  // decode: all tokens but each sample's first
    static constexpr std::array kColumns = {"mode",       "text",       "sample",  "side_by_side", "prompt_tokens",
                                            "new_tokens", "prefill_ns", "ttft_ns", "decode_ns"};
};
/// A round of the whole chain: what it added to the text.
struct RoundRow {
    int64_t mode, text, sample;
    int64_t tokens, length;  // of the round; of the continuation behind it
    int64_t end_at_ns;
    static constexpr std::array kColumns = {"mode", "text", "sample", "tokens", "length", "end_at_ns"};
};
/// A round of a level that checks proposals, 0 the outermost.
struct CheckRow {
    int64_t mode, level, text, sample;
    int64_t asked, proposed, accepted;
    int64_t length;  // of the text behind it, prompt included; of an inner level it may be taken back
    int64_t begin_at_ns, draft_ns, verify_ns;
    static constexpr std::array kColumns = {"mode",     "level",  "text",        "sample",   "asked",    "proposed",
                                            "accepted", "length", "begin_at_ns", "draft_ns", "verify_ns"};
};
/// What a rank did of round `round` (a row of RoundRow's table, from 0): bytes whose copy it enqueued, time that copies
/// which ended meanwhile took, compute waiting for them, and sums over ranks, waiting for peers included.
struct LinkRow {
    int64_t rank, round;
    int64_t h2d_bytes, d2h_bytes;
    int64_t h2d_ns, d2h_ns, stall_ns, allreduce_ns;
    static constexpr std::array kColumns = {"rank",   "round",  "h2d_bytes", "d2h_bytes",
                                            "h2d_ns", "d2h_ns", "stall_ns",  "allreduce_ns"};
};
/// What one of rank 0's streams did: `stream` and `name` are indices of RunLog::names().
struct SpanRow {
    int64_t mode, stream, name;
    int64_t begin_at_ns, duration_ns, bytes;
    static constexpr std::array kColumns = {"mode", "stream", "name", "begin_at_ns", "duration_ns", "bytes"};
};

class RunLog {
  public:
    /// Spans are kept of each mode's first kSpanRounds rounds, at most so many a stream.
    static constexpr int64_t kSpanRounds = 5;
    static constexpr size_t kMostSpans = size_t{1} << 15;

    RunLog(const Options& options, int rank, int ranks);
    RunLog(const RunLog&) = delete;
    RunLog& operator=(const RunLog&) = delete;
    ~RunLog();
    bool on() const { return on_; }
    /// Of the present mode.
    int64_t side_by_side() const { return side_by_side_; }

    /// What follows is of this mode; `engine` is loaded for it, and stays so until the next call.
    void mode(const std::string& name, int64_t side_by_side, const Engine& engine);
    /// The next rounds are of this text and sample, behind its prompt and so many tokens more; -1: of several.
    void text(int64_t text, int64_t sample, int64_t length = 0);
    /// A round has ended, with these tokens.
    void round(std::span<const int32_t> tokens);
    /// The text's rows of the levels that check (Chain::take_kept_rounds), the outermost first.
    void checks(const std::vector<std::vector<KeptRound>>& levels);
    /// What became of it; `row.mode` is the log's.
    void done(TextRow row);
    /// From the first token of this sample of a text to the end of its last round; -1: there is none.
    int64_t decode_ns(int64_t text, int64_t sample) const;
    /// Nothing follows: whatever is still to be taken is.
    void close();

    /// Of each mode {"name", "side_by_side", "bounded": some tokens are kept, "plan": bytes by what they are for}.
    const nlohmann::ordered_json& modes() const { return modes_; }
    /// What is known of spans: which were kept, or why there are none.
    nlohmann::ordered_json span_facts() const;
    const std::vector<std::string>& names() const { return names_; }
    const std::vector<TextRow>& texts() const { return texts_; }
    const std::vector<RoundRow>& rounds() const { return rounds_; }
    const std::vector<CheckRow>& checks() const { return checks_; }
    const std::vector<LinkRow>& link() const { return link_; }  // this rank's
    const std::vector<SpanRow>& spans() const { return spans_; }

  private:
    struct Counters {
        LinkUse link;
        uint64_t allreduce_ns = 0;
    };
    Counters count() const;
    void begin_spans();
    void end_spans();
    int64_t name(const char* text);
    int64_t since_begin(uint64_t ns) const { return static_cast<int64_t>(ns - begin_ns_); }

    bool on_, traces_;  // --trace keeps spans anyway
    int rank_, ranks_;
    uint64_t begin_ns_;
    const Engine* engine_ = nullptr;
    int64_t side_by_side_ = 1;
    int64_t mode_ = 0, text_ = -1, sample_ = -1, length_ = 0;
    bool first_ = true;  // the next round is the text's first one
    Counters counters_;
    nlohmann::ordered_json modes_ = nlohmann::ordered_json::array();
    std::vector<bool> has_spans_;  // [modes]
    int64_t span_rounds_ = -1;     // of the mode whose spans are being kept; -1: of none
    uint64_t spans_from_ns_ = 0;
    size_t dropped_ = 0, dropped_before_ = 0;
    std::string no_spans_;  // why
    std::vector<std::string> names_;
    std::vector<TextRow> texts_;
    std::vector<RoundRow> rounds_;
    std::vector<CheckRow> checks_;
    std::vector<LinkRow> link_;
    std::vector<SpanRow> spans_;
};

}  // namespace trireme
