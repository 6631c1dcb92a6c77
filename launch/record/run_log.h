#pragma once
/// Log of a run's rounds for --record, kept in memory while the run decodes. write_record() (run_record.h) saves it.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/speculate.h"
#include "launch/run/engine.h"

namespace trireme {

// Rows of a run's tables (docs/reference/record-hdf5.md). Times are nanoseconds; `_at` counts from the log's creation.
// `mode` is an index of RunLog::modes(). `text` is the number of a request, document or turn, and `sample` that of a
// sample or repetition, from 0. -1: not measured, or several.

inline int64_t ns_of(double ms) {
    return static_cast<int64_t>(ms * 1e6);
}

/// A finished continuation: an answer of a conversation, a request, a sample or a repetition.
struct TextRow {
    int64_t mode = 0, text = 0, sample = 0;
    int64_t side_by_side = 1;  // number of parallel samples that this row summarises
    int64_t prompt_tokens = 0, new_tokens = 0;
    int64_t prefill_ns = -1, ttft_ns = -1, decode_ns = -1;  // decode: all tokens but each sample's first
    static constexpr std::array kColumns = {"mode",       "text",       "sample",  "side_by_side", "prompt_tokens",
                                            "new_tokens", "prefill_ns", "ttft_ns", "decode_ns"};
};
/// A round of the whole chain, at the outermost level.
struct RoundRow {
    int64_t mode, text, sample;
    int64_t tokens, length;  // tokens of the round; tokens of the continuation after it
    int64_t end_at_ns;
    static constexpr std::array kColumns = {"mode", "text", "sample", "tokens", "length", "end_at_ns"};
};
/// A round of a verifying level; level 0 is the outermost.
struct CheckRow {
    int64_t mode, level, text, sample;
    int64_t asked, proposed, accepted;  // tokens: requested from the proposer, proposed by it, accepted
    int64_t length;                     // of the sequence after it, with the prompt; an inner level may be rolled back
    int64_t begin_at_ns, draft_ns, verify_ns;  // draft: until the proposal is there
    static constexpr std::array kColumns = {"mode",     "level",  "text",        "sample",   "asked",    "proposed",
                                            "accepted", "length", "begin_at_ns", "draft_ns", "verify_ns"};
};
/// A rank's link traffic in one round; `round` is the round's index in the table of RoundRow. Bytes of copies count
/// when they are enqueued, times when they end. stall: time that compute waited for copies; allreduce: with the wait
/// for peers.
struct LinkRow {
    int64_t rank, round;
    int64_t h2d_bytes, d2h_bytes;
    int64_t h2d_ns, d2h_ns, stall_ns, allreduce_ns;
    static constexpr std::array kColumns = {"rank",   "round",  "h2d_bytes", "d2h_bytes",
                                            "h2d_ns", "d2h_ns", "stall_ns",  "allreduce_ns"};
};
/// An operation of one of rank 0's streams: `stream` and `name` are indices of RunLog::names().
struct SpanRow {
    int64_t mode, stream, name;
    int64_t begin_at_ns, duration_ns, bytes;
    static constexpr std::array kColumns = {"mode", "stream", "name", "begin_at_ns", "duration_ns", "bytes"};
};

/// Each rank has one. Without --record its calls return at once, and it allocates nothing. Calls: mode(); then text()
/// and round() for each text, and checks() and done() at its end; last close().
class RunLog {
  public:
    /// Rank 0 keeps spans of the first kSpanRounds rounds of each mode, at most kMostSpans per stream.
    static constexpr int64_t kSpanRounds = 5;
    static constexpr size_t kMostSpans = size_t{1} << 15;

    RunLog(const Options& options, int rank, int ranks);
    RunLog(const RunLog&) = delete;
    RunLog& operator=(const RunLog&) = delete;
    ~RunLog();
    /// Whether --record is given.
    bool on() const { return on_; }
    /// The number of parallel samples of the current mode.
    int64_t side_by_side() const { return side_by_side_; }

    /// Begins a mode, or continues an earlier one with this name and number of parallel samples. `engine` must remain
    /// loaded for the mode until the next call of mode() or close().
    void mode(const std::string& name, int64_t side_by_side, const Engine& engine);
    /// Subsequent rounds belong to this text and sample, of which `length` tokens have already been generated (by a
    /// resumed run). -1: rounds have tokens of several texts or samples.
    void text(int64_t text, int64_t sample, int64_t length = 0);
    /// Logs a round that has just ended with these tokens; without tokens it does nothing.
    void round(std::span<const int32_t> tokens);
    /// Adds the rounds of the verifying levels, outermost first, in this text; -1: the current one
    /// (Chain::take_kept_rounds).
    void checks(const std::vector<std::vector<KeptRound>>& levels, int64_t text = -1);
    /// Adds the row of a finished continuation; sets `row.mode`.
    void done(TextRow row);
    /// The time from the first token of this sample in the current mode to the end of its last round; -1: no round.
    int64_t decode_ns(int64_t text, int64_t sample) const;
    /// Ends the log and stores pending spans.
    void close();

    /// A list with an object for each mode: {"name", "side_by_side", "bounded": the cache evicts, "plan": planned bytes
    /// by purpose}.
    const nlohmann::ordered_json& modes() const { return modes_; }
    /// Describes the spans: their limits, how many were dropped, and why there are none.
    nlohmann::ordered_json span_facts() const;
    /// The names that SpanRow refers to.
    const std::vector<std::string>& names() const { return names_; }
    const std::vector<TextRow>& texts() const { return texts_; }
    const std::vector<RoundRow>& rounds() const { return rounds_; }
    const std::vector<CheckRow>& checks() const { return checks_; }
    const std::vector<LinkRow>& link() const { return link_; }    // of this rank
    const std::vector<SpanRow>& spans() const { return spans_; }  // rank 0's; empty on others

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

    bool on_, traces_;  // traces_: --trace is given, which records spans for the whole run
    int rank_, ranks_;
    uint64_t begin_ns_;
    const Engine* engine_ = nullptr;
    int64_t side_by_side_ = 1;
    int64_t mode_ = 0, text_ = -1, sample_ = -1, length_ = 0;
    bool first_ = true;  // the next round is the first of its text
    Counters counters_;
    nlohmann::ordered_json modes_ = nlohmann::ordered_json::array();
    std::vector<bool> has_spans_;  // [modes]
    int64_t span_rounds_ = -1;     // rounds of the mode whose spans are being kept; -1: none is
    uint64_t spans_from_ns_ = 0;
    size_t dropped_ = 0, dropped_before_ = 0;
    std::string no_spans_;  // the reason
    std::vector<std::string> names_;
    std::vector<TextRow> texts_;
    std::vector<RoundRow> rounds_;
    std::vector<CheckRow> checks_;
    std::vector<LinkRow> link_;
    std::vector<SpanRow> spans_;
};

}  // namespace trireme
