#include "offload/plan/step_forecast.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

double ms(double bytes, double gbps) {
    return bytes / gbps * 1e-6;
}

/// Bytes of one layer's keys and values of `tokens` tokens.
double tokens_bytes(const PlanInput& in, int64_t tokens) {
    return static_cast<double>(in.kv.layout.tile_bytes()) / static_cast<double>(kTileTokens) *
           static_cast<double>(tokens);
}

/// Bytes of a tile in host memory and on the link, relative to the plain tile.
double stored_share(const PlanInput& in) {
    const StreamShape shape{.layout = in.kv.layout, .coded = in.coded};
    return static_cast<double>(shape.stored_bytes()) / static_cast<double>(shape.tile_bytes());
}

/// The spans of a streamed layer that a step reads from host memory if every sequence has `length` tokens. In tiles.
std::vector<int64_t> spans_of(const PlanInput& in, const Plan& plan, int64_t length) {
    std::vector<int64_t> spans;
    const auto add = [&](int64_t tiles) {
        for (; tiles > 0; tiles -= plan.span_tiles) spans.push_back(std::min(tiles, plan.span_tiles));
    };
    if (plan.streamed_layers == 0) return spans;
    add(in.kv.common_tiles());
    for (int64_t i = 0; i < in.kv.sequences; ++i) add(TailTiles::first_tile(length) - in.kv.common_tiles());
    return spans;
}

/// The forecast for more sequences than a forward has rows.
StepForecast of_several_forwards(PlanInput in, const Plan& plan, const Machine& m, int64_t length, double between_ms) {
    StepForecast all;
    for (int64_t left = in.kv.sequences; left > 0; left -= kMaxRows) {
        in.kv.sequences = std::min(left, kMaxRows);
        const StepForecast one = forecast(in, plan, m, length, all.step_ms == 0 ? between_ms : 0);
        all.h2d_bytes += one.h2d_bytes;
        all.copy_ms += one.copy_ms;
        all.compute_ms += one.compute_ms;
        all.step_ms += one.step_ms;
    }
    return all;
}

}  // namespace

double step_bytes(const PlanInput& in, int64_t length) {
    const int64_t tokens = in.kv.common + in.kv.sequences * (length - in.kv.common);
    return static_cast<double>(in.weight_bytes_per_step) +
           static_cast<double>(in.reads.size()) * tokens_bytes(in, tokens);
}

StepForecast forecast(const PlanInput& in, const Plan& plan, const Machine& m, int64_t length, double between_ms) {
    check(m.device_gbps > 0 && (plan.streamed_layers == 0 || m.link_gbps > 0),
          "plan: the machine's rates are not known");
    if (in.kv.sequences > kMaxRows) return of_several_forwards(in, plan, m, length, between_ms);
    const double weights_ms =
        ms(static_cast<double>(in.weight_bytes_per_step), m.device_gbps) / static_cast<double>(in.reads.size()) +
        m.layer_ms;
    const int64_t tokens = in.kv.common + in.kv.sequences * (length - in.kv.common);
    const std::vector<int64_t> spans = spans_of(in, plan, length);
    const int64_t from_host = std::accumulate(spans.begin(), spans.end(), int64_t{0}) * kTileTokens;
    const bool holds = static_cast<int64_t>(spans.size()) <= in.ring;
    const std::vector<ReadRun> runs = runs_of(in, plan);

    StepForecast f;
    // ms: when a slot, or a frame, may be overwritten
    std::vector<double> slot_free(static_cast<size_t>(in.ring), 0), frame_free(static_cast<size_t>(plan.frames), 0);
    double link = 0, compute = 0, before = 0;
    size_t turn = 0;
    constexpr int kForwards = 3;  // the last one is in the steady state: it starts with the ring filled
    for (int forward = 0; forward < kForwards; ++forward) {
        f = {.step_ms = 0};
        before = compute;
        compute += between_ms;
        const auto add = [&](double compute_ms) {
            compute += compute_ms;
            f.compute_ms += compute_ms;
        };
        auto run = runs.begin();
        const double share = stored_share(in);
        int64_t attention = 0;  // index in the run
        for (const OwnerIndex owner : in.reads) {
            if (plan.on_chip[owner.at()]) {
                add(weights_ms + ms(tokens_bytes(in, tokens), m.device_gbps));
                continue;
            }
            const bool fetched = run->held() ? !run->first || attention > 0 : holds && attention > 0;
            const bool last = ++attention == run->attentions;
            if (fetched && !run->held()) turn -= spans.size();
            for (const int64_t tiles : spans) {
                const double bytes = tokens_bytes(in, tiles * kTileTokens);
                double& free = run->held() ? frame_free[index(run->frame)] : slot_free[turn++ % slot_free.size()];
                if (!fetched) {
                    const double copied = bytes * share;
                    const double copy = m.link_us * 1e-3 + ms(copied, m.link_gbps);
                    link = std::max(link, free) + copy;
                    compute = std::max(compute, link);
                    f.h2d_bytes += static_cast<size_t>(copied);
                    f.copy_ms += copy;
                    if (in.coded) add(ms(copied + bytes, m.device_gbps));  // at most: a GPU decodes on another stream
                }
                add(ms(bytes, m.device_gbps));
                if (run->held() ? run->last && last : last || !holds) free = compute;
            }
            add(weights_ms + ms(tokens_bytes(in, tokens - from_host), m.device_gbps));
            if (!last) continue;
            ++run;
            attention = 0;
        }
    }
    f.step_ms = compute - before;
    return f;
}

}  // namespace trireme
