#include "launch/report/kv_dump.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "model/shard.h"
#include "offload/policies/bounded_view.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr char kOwnerEnd = '\x1e';  // between a rank's owners

const SlotKv& slots_of(const Engine& engine) {
    const auto* view = dynamic_cast<const BoundedView*>(&engine.model().view());
    check(view != nullptr, "--kv-dump: the view is not bounded");
    return view->slots();
}

}  // namespace

KvDump::KvDump(const Engine& engine, const Crew& crew, int64_t prompt) : engine_(engine), crew_(crew), prompt_(prompt) {
    const SlotKv& kv = slots_of(engine);
    Device& device = engine.device();
    tokens_ = Buffer<Space::kHost>(device, kv.tokens.bytes());
    ranks_ = Buffer<Space::kHost>(device, kv.ranks.bytes());
    scores_ = Buffer<Space::kHost>(device, kv.scores.bytes());
    counts_ = Buffer<Space::kHost>(device, kv.counts.bytes());
    const LayerMap& map = engine.checkpoint().config().layer_map;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.owns(l)) owners_.push_back(l);
    }
    const Shard& shard = engine.weights().shard();
    int64_t lower = 0;  // heads that lower ranks hold are the first ones
    for (int rank = 0; rank < shard.rank; ++rank) {
        const Shard s = make_shard(engine.checkpoint().config(), rank, shard.ranks);
        lower = std::max(lower, s.kv_begin + s.n_kv_heads);
    }
    first_head_ = std::max(shard.kv_begin, lower);
    heads_ = shard.kv_begin + shard.n_kv_heads - first_head_;
}

void KvDump::turn(int64_t number) {
    turn_ = number;
    prompt_ = engine_.model().length();
    taken_ = -1;
    take();
}

void KvDump::resumed(int64_t number, int64_t answer) {
    turn_ = number;
    prompt_ = answer;
    taken_ = engine_.model().length() - prompt_;
}

void KvDump::take() {
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
    std::vector<std::string> all = crew_.comm().gather_bytes(own_lines(step));
    if (!crew_.first()) return;
    // Ranks hold heads in order: owner by owner, what each of them has.
    std::vector<size_t> at(all.size(), 0);
    for (size_t owner = 0; owner < owners_.size(); ++owner) {
        for (size_t rank = 0; rank < all.size(); ++rank) {
            const size_t end = all[rank].find(kOwnerEnd, at[rank]);
            lines_.append(all[rank], at[rank], end - at[rank]);
            at[rank] = end + 1;
        }
    }
}

std::string KvDump::own_lines(int64_t step) const {
    const SlotKv& kv = slots_of(engine_);
    const int64_t kv_heads = kv.layout.kv_heads, slots = kv.slots();
    const auto* tokens = static_cast<const int32_t*>(tokens_.data());
    const auto* ranks = static_cast<const int32_t*>(ranks_.data());
    const auto* scores = static_cast<const float*>(scores_.data());
    const auto* counts = static_cast<const int32_t*>(counts_.data());
    const int64_t begin = engine_.weights().shard().kv_begin;
    std::string text;
    for (size_t owner = 0; owner < owners_.size(); ++owner) {
        for (int64_t head = first_head_; head < first_head_ + heads_; ++head) {
            const int64_t row = static_cast<int64_t>(owner) * kv_heads + head - begin;
            const auto n = static_cast<size_t>(counts[row]);
            std::vector<int32_t> kept(n);
            std::vector<float> scored(n);
            for (size_t s = 0; s < n; ++s) {
                const int64_t at = row * slots + static_cast<int64_t>(s);
                kept[static_cast<size_t>(ranks[at])] = tokens[at];
                scored[static_cast<size_t>(ranks[at])] = scores[at];
            }
            text += fmt::format(R"({{{}"step":{},"layer":{},"head":{},"kept":[{}],"scores":[{}]}})"
                                "\n",
                                turn_ < 0 ? "" : fmt::format(R"("turn":{},)", turn_), step, owners_[owner], head,
                                fmt::join(kept, ","), fmt::join(scored, ","));
        }
        text += kOwnerEnd;
    }
    return text;
}

}  // namespace trireme
