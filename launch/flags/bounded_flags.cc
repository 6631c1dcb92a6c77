// The flags of bounded KV: which tokens a KV head keeps, and how many.

#include "launch/flags/flag_groups.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

KvPolicy read_policy(const S& s) {
    const auto& n = kKvPolicyNames;
    static_assert(std::size(kKvPolicyNames) == 9);
    return static_cast<KvPolicy>(s.one_of({n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], n[8]}));
}

void set_window(O& o, const S& s) {
    o.bounded.window_share = 0;
    if (s.text.find('.') == std::string::npos) {
        o.bounded.window = s.integer(2, kMostTokens, ", or a share of the prompt below 1");
    } else {
        o.bounded.window_share = s.real(0.001, 1);
    }
}

std::string shown_window(const O& o) {
    if (o.bounded.window_share == 0) return o.bounded.window == 0 ? std::string() : shown(o.bounded.window);
    return o.bounded.window_share == 1 ? "1.0" : shown(o.bounded.window_share);
}

}  // namespace

FlagGroup bounded_flags() {
    return {
        "Bounded KV",
        {
            {"kv-policy",
             {"--kv-policy"},
             kContinue | kScore | kPlan,
             "full|h2o|streaming|tova|snapkv|pyramidkv|adakv|knorm|random",
             "which tokens each KV head keeps, at the prompt's end and at every step: full (all), h2o (those that got "
             "most attention, and the most recent ones), streaming (the first and the most recent ones), tova (those "
             "that the last query attends), snapkv (those that the most recent queries attend), pyramidkv (the same, "
             "fewer in higher layers), adakv (the same, in whichever of a layer's heads they are worth most), knorm "
             "(those with short keys, and the most recent ones), random",
             [](O& o, const S& s) { o.bounded.policy = read_policy(s); },
             [](const O& o) { return std::string(name_of(o.bounded.policy)); }},
            {"h2o",
             {"--h2o", "--enable_h2o_generation", "--enable_h2o_cache"},
             kContinue | kScore | kPlan,
             "",
             "the same as --kv-policy h2o",
             [](O& o, const S& s) {
                 if (s.on()) o.bounded.policy = KvPolicy::kH2o;
             },
             [](const O& o) { return on_off(o.bounded.policy == KvPolicy::kH2o); }},
            {"kv-window",
             {"--kv-window", "--num_window_length"},
             kShaped,
             "TOKENS",
             "tokens that each KV head keeps, or proposes by (--spec h2o); with a decimal point, as 0.2, a share of "
             "the prompt",
             set_window,
             shown_window,
             "256; 1024 with --spec h2o"},
            {"kv-heavy",
             {"--kv-heavy", "--num_heavy_hitter_tokens"},
             kShaped,
             "TOKENS",
             "h2o, knorm: how many of them are chosen by score, the others being the most recent; -1: half",
             [](O& o, const S& s) { o.bounded.heavy = s.integer(-1, kMostTokens); },
             [](const O& o) { return shown(o.bounded.heavy); }},
            {"kv-sinks",
             {"--kv-sinks", "--num-sink-tokens"},
             kShaped,
             "TOKENS",
             "first tokens of the text that are always kept; each takes a place of those that are chosen",
             [](O& o, const S& s) { o.bounded.sinks = s.integer(0, kMostTokens); },
             [](const O& o) { return o.bounded.sinks < 0 ? std::string() : shown(o.bounded.sinks); },
             "4 with streaming, else 0"},
            {"kv-positions",
             {"--kv-positions"},
             kShaped,
             "true|rolling",
             "where tokens stand for attention: true: in the text; rolling: among those that are kept, so that texts "
             "of any length stay within the model's context",
             [](O& o, const S& s) {
                 o.bounded.rolling = s.one_of({"true", "rolling"}) == 1;
             },
             [](const O& o) { return std::string(o.bounded.rolling ? "rolling" : "true"); }},
            {"kv-rolling",
             {"--kv-rolling", "--enable_position_rolling"},
             kShaped,
             "",
             "the same as --kv-positions rolling",
             [](O& o, const S& s) {
                 if (s.on()) o.bounded.rolling = true;
             },
             [](const O& o) { return on_off(o.bounded.rolling); }},
            {"kv-gqa",
             {"--kv-gqa"},
             kShaped,
             "first|mean|sum|max",
             "what the query heads of a KV head count for, in all layers that read it: the first one alone (the public "
             "code's rule), their mean, their sum, or the largest of them",
             [](O& o, const S& s) {
                 o.bounded.heads = static_cast<HeadsBy>(s.one_of({"first", "mean", "sum", "max"}));
             },
             [](const O& o) {
                 constexpr std::string_view names[] = {"first", "mean", "sum", "max"};
                 return std::string(names[static_cast<size_t>(o.bounded.heads)]);
             }},
            {"kv-heads-share",
             {"--kv-heads-share"},
             kContinue | kScore | kPlan,
             "layer|head",
             "h2o, tova, snapkv, pyramidkv, --spec h2o: layer: all KV heads of a layer keep the same tokens, by the "
             "mean of their "
             "scores; head: each KV head keeps its own",
             [](O& o, const S& s) {
                 o.bounded.one_set = s.one_of({"layer", "head"}) == 0;
             },
             [](const O& o) {
                 const std::optional<bool>& one = o.bounded.one_set;
                 return std::string(!one ? "" : *one ? "layer" : "head");
             },
             "layer with tova, else head"},
            {"kv-score-dtype",
             {"--kv-score-dtype"},
             kShaped,
             "f32|f16",
             "type of the scores; f16 repeats the public code, whose sums stop growing",
             [](O& o, const S& s) {
                 o.bounded.half_scores = s.one_of({"f32", "f16"}) == 1;
             },
             [](const O& o) { return std::string(o.bounded.half_scores ? "f16" : "f32"); }},
            {"kv-decay",
             {"--kv-decay"},
             kShaped,
             "FACTOR",
             "h2o: what sums of attention from before a call are multiplied by for each of its queries; a prompt is "
             "one "
             "call",
             [](O& o, const S& s) { o.bounded.decay = s.real_above(0, 1); },
             [](const O& o) { return shown(o.bounded.decay); }},
            {"kv-normalise",
             {"--kv-normalise", "--kv-normalize"},
             kShaped,
             "",
             "h2o: compare sums divided by the number of queries that saw the token",
             [](O& o, const S& s) { o.bounded.normalise = s.on(); },
             [](const O& o) { return on_off(o.bounded.normalise); }},
            {"kv-observe",
             {"--kv-observe"},
             kShaped,
             "TOKENS",
             "snapkv, pyramidkv, adakv: the most recent tokens, which are kept and whose queries count; at most 512",
             [](O& o, const S& s) { o.bounded.observe = s.integer(1, kPrefillRows); },
             [](const O& o) { return shown(o.bounded.observe); }},
            {"kv-pool",
             {"--kv-pool"},
             kShaped,
             "TOKENS",
             "snapkv, pyramidkv, adakv: neighbours that a score is the mean of; odd",
             [](O& o, const S& s) { o.bounded.pool = s.integer(1, 1023); },
             [](const O& o) { return shown(o.bounded.pool); }},
            {"kv-every",
             {"--kv-every"},
             kShaped,
             "STEPS",
             "snapkv, pyramidkv, adakv: after so many steps scores are counted anew",
             [](O& o, const S& s) { o.bounded.every = s.integer(1, kMostTokens); },
             [](const O& o) { return shown(o.bounded.every); }},
            {"kv-chunk",
             {"--kv-chunk"},
             kShaped,
             "TOKENS",
             "read the prompt in chunks of so many tokens, with eviction behind each, so that memory is bounded; 0: in "
             "one, which is exact",
             [](O& o, const S& s) { o.bounded.chunk = s.integer(0, kMostTokens); },
             [](const O& o) { return shown(o.bounded.chunk); }},
            {"kv-dump",
             {"--kv-dump"},
             kGenerate,
             "FILE",
             "write what each KV head keeps, after the prompt (step 0) and after each step; with --spec retrieval or "
             "triforce the chunks that it retrieves, after the prompt (round 0) and each round. A JSON object a line; "
             "held in memory until the end",
             [](O& o, const S& s) { o.kv_dump = s.word(); },
             [](const O& o) { return o.kv_dump; },
             "none"},
        }};
}

}  // namespace trireme
