#include "launch/report/kept_dump.h"

#include <vector>

#include <fmt/ranges.h>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

const SlotKv& slots_of(const Engine& engine) {
    const SlotKv* kept = engine.model().cache().retained();
    check(kept != nullptr, "--kv-dump: the cache does not evict");
    return *kept;
}

}  // namespace

KeptDump::KeptDump(const Engine& engine, const RankGroup& rank_group, int64_t prompt)
    : KvDump(engine, rank_group), prompt_(prompt) {
    const SlotKv& kv = slots_of(engine);
    Device& device = engine.device();
    tokens_ = Buffer<Space::kHost>(device, kv.tokens.bytes());
    ranks_ = Buffer<Space::kHost>(device, kv.ranks.bytes());
    scores_ = Buffer<Space::kHost>(device, kv.scores.bytes());
    counts_ = Buffer<Space::kHost>(device, kv.counts.bytes());
}

void KeptDump::turn(int64_t number) {
    turn_ = number;
    prompt_ = engine_.model().length();
    taken_ = -1;
    take();
}

void KeptDump::resumed(int64_t number, int64_t answer) {
    turn_ = number;
    prompt_ = answer;
    taken_ = engine_.model().length() - prompt_;
}

void KeptDump::skip() {
    taken_ = engine_.model().length() - prompt_;
}

void KeptDump::take() {
    Level& model = engine_.model();
    const int64_t step = model.length() - prompt_;
    if (step == taken_) return;
    taken_ = step;
    const SlotKv& kv = slots_of(engine_);
    Stream& stream = model.stream();
    stream.copy(tokens_.tensor(DType::kI32, kv.tokens.shape()), kv.tokens);
    stream.copy(ranks_.tensor(DType::kI32, kv.ranks.shape()), kv.ranks);
    stream.copy(scores_.tensor(DType::kF32, kv.scores.shape()), kv.scores);
    stream.copy(counts_.tensor(DType::kI32, kv.counts.shape()), kv.counts);
    stream.synchronize();
    append(own_lines(step));
}

std::string KeptDump::own_lines(int64_t step) const {
    const SlotKv& kv = slots_of(engine_);
    const int64_t kv_heads = kv.layout.kv_heads, slots = kv.slots();
    const auto* tokens = static_cast<const int32_t*>(tokens_.data());
    const auto* ranks = static_cast<const int32_t*>(ranks_.data());
    const auto* scores = static_cast<const float*>(scores_.data());
    const auto* counts = static_cast<const int32_t*>(counts_.data());
    std::string text;
    for (size_t owner = 0; owner < owners().size(); ++owner) {
        for (int64_t head = first_head(); head < end_head(); ++head) {
            const int64_t row = static_cast<int64_t>(owner) * kv_heads + head - first_held();
            const auto n = static_cast<size_t>(counts[row]);
            std::vector<int32_t> kept(n);
            std::vector<float> scored(n);
            for (size_t s = 0; s < n; ++s) {
                const int64_t at = row * slots + static_cast<int64_t>(s);
                kept[index(ranks[at])] = tokens[at];
                scored[index(ranks[at])] = scores[at];
            }
            text += fmt::format(R"({{{}"step":{},"layer":{},"head":{},"kept":[{}],"scores":[{}]}})"
                                "\n",
                                turn_ < 0 ? "" : fmt::format(R"("turn":{},)", turn_), step, owners()[owner], head,
                                fmt::join(kept, ","), fmt::join(scored, ","));
        }
        text += end_owner();
    }
    return text;
}

}  // namespace trireme
