#include "launch/record/run_log.h"

#include <algorithm>

#include "offload/stream/transport.h"
#include "runtime/index.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

using OrderedJson = nlohmann::ordered_json;

int64_t ns(double ms) {
    return static_cast<int64_t>(ms * 1e6);
}

OrderedJson plan_facts(const Plan& p) {
    return {{"on_chip_layers", p.on_chip_layers},
            {"streamed_layers", p.streamed_layers},
            {"device",
             {{"weights", p.weight_bytes},
              {"activations, scratch", p.work.device},
              {"KV on chip", p.kv.device},
              {"ring", p.ring_bytes},
              {"frames", p.frame_bytes},
              {"newest tiles", p.tail_bytes},
              {"prompt's hidden states", p.hidden.device},
              {"retrieved", p.retrieved.device},
              {"chunk summaries", p.summary_bytes},
              {"heavy hitters", p.heavy.device},
              {"levels that propose", p.proposing.device}}},
            {"host",
             {{"KV streamed", p.kv.host},
              {"prompt's hidden states", p.hidden.host},
              {"staging", p.work.host},
              {"retrieved", p.retrieved.host},
              {"heavy hitters", p.heavy.host},
              {"levels that propose", p.proposing.host}}}};
}

}  // namespace

RunLog::RunLog(const Options& o, int rank, int ranks)
    : on_(!o.record.empty()), traces_(!o.trace.empty()), rank_(rank), ranks_(ranks), begin_ns_(trace::now()) {}

RunLog::~RunLog() {
    if (span_rounds_ >= 0 && !traces_) trace::stop();
}

void RunLog::mode(const std::string& name, int64_t side_by_side, const Engine& engine) {
    if (!on_) return;
    end_spans();
    engine_ = &engine;
    side_by_side_ = side_by_side;
    const auto found = std::ranges::find_if(
        modes_, [&](const OrderedJson& m) { return m.at("name") == name && m.at("side_by_side") == side_by_side; });
    mode_ = found - modes_.begin();
    if (found != modes_.end()) return;
    modes_.push_back({{"name", name},
                      {"side_by_side", side_by_side},
                      {"bounded", engine.eviction().evicts()},
                      {"plan", plan_facts(engine.residency().plan)}});
    has_spans_.push_back(false);
}

void RunLog::text(int64_t text, int64_t sample, int64_t length) {
    if (!on_) return;
    end_spans();
    text_ = text;
    sample_ = sample;
    length_ = length;
    first_ = true;
}

RunLog::Counters RunLog::count() const {
    Counters now;
    if (const Transport* transport = engine_->model().cache().transport()) now.link = transport->use();
    if (ranks_ > 1) now.allreduce_ns = trace::total("all_reduce").ns;
    return now;
}

void RunLog::round(std::span<const int32_t> tokens) {
    if (!on_ || tokens.empty()) return;
    const uint64_t now = trace::now();
    const auto n = static_cast<int64_t>(tokens.size());
    length_ += n;
    const auto round = static_cast<int64_t>(rounds_.size());
    rounds_.push_back({mode_, text_, sample_, n, length_, since_begin(now)});
    const Counters counters = count();
    // The first token is sampled from the prompt's logits, before any copy over the link for this text.
    if (first_) counters_ = counters;
    if (ranks_ > 1 || engine_->model().cache().transport() != nullptr) {
        const LinkUse use = counters.link - counters_.link;
        link_.push_back({rank_, round, static_cast<int64_t>(use.h2d_bytes + use.hidden_h2d_bytes),
                         static_cast<int64_t>(use.d2h_bytes + use.hidden_d2h_bytes), ns(use.h2d_ms), ns(use.d2h_ms),
                         ns(use.stall_ms), static_cast<int64_t>(counters.allreduce_ns - counters_.allreduce_ns)});
    }
    counters_ = counters;
    if (first_) begin_spans();
    first_ = false;
    if (span_rounds_ >= 0 && ++span_rounds_ >= kSpanRounds) end_spans();
}

void RunLog::checks(const std::vector<std::vector<KeptRound>>& levels, int64_t text) {
    if (!on_) return;
    for (size_t level = 0; level < levels.size(); ++level) {
        for (const KeptRound& r : levels[level]) {
            checks_.push_back({mode_, static_cast<int64_t>(level), text < 0 ? text_ : text, r.sample, r.asked,
                               r.proposed, r.accepted, r.length, since_begin(r.begin_ns),
                               static_cast<int64_t>(r.draft_ns), static_cast<int64_t>(r.verify_ns)});
        }
    }
}

void RunLog::done(TextRow row) {
    if (!on_) return;
    row.mode = mode_;
    texts_.push_back(row);
}

int64_t RunLog::decode_ns(int64_t text, int64_t sample) const {
    int64_t first = -1, last = -1;
    for (const RoundRow& r : rounds_) {
        if (r.mode != mode_ || r.text != text || r.sample != sample) continue;
        if (first < 0) first = r.end_at_ns;
        last = r.end_at_ns;
    }
    return first < 0 ? -1 : last - first;
}

void RunLog::begin_spans() {
    if (rank_ != 0 || has_spans_[index(mode_)]) return;
    has_spans_[index(mode_)] = true;
    // On a GPU each operation would be put between two events of the driver, and graphs would be replayed one by one.
    if (engine_->device().backend() != "cpu" && !traces_) {
        no_spans_ = "a card's operations are timed with --trace alone";
        return;
    }
    if (!traces_) trace::start(kMostSpans);
    dropped_before_ = trace::dropped();
    spans_from_ns_ = trace::now();
    span_rounds_ = 0;
}

void RunLog::end_spans() {
    if (span_rounds_ < 0) return;
    span_rounds_ = -1;
    std::vector<size_t> of_stream;
    for (const trace::Span& s : trace::spans(spans_from_ns_)) {
        const int64_t stream = name(s.lane), what = name(s.name);
        of_stream.resize(names_.size());
        if (++of_stream[index(stream)] > kMostSpans) {  // --trace keeps more of them
            ++dropped_;
            continue;
        }
        spans_.push_back({mode_, stream, what, since_begin(s.begin), static_cast<int64_t>(s.end - s.begin),
                          static_cast<int64_t>(s.bytes)});
    }
    dropped_ += trace::dropped() - dropped_before_;
    if (!traces_) trace::stop();
}

int64_t RunLog::name(const char* text) {
    const auto found = std::ranges::find(names_, text);
    if (found == names_.end()) names_.emplace_back(text);
    return std::ranges::find(names_, text) - names_.begin();
}

void RunLog::close() {
    end_spans();
}

OrderedJson RunLog::span_facts() const {
    OrderedJson facts = {{"rounds", kSpanRounds}, {"most_of_a_stream", kMostSpans}, {"dropped", dropped_}};
    facts["none"] = no_spans_.empty() ? OrderedJson() : OrderedJson(no_spans_);
    return facts;
}

}  // namespace trireme
