#include "launch/report/retrieval_dump.h"

#include <vector>

#include <fmt/ranges.h>

namespace trireme {

RetrievalDump::RetrievalDump(const Engine& engine, const RankGroup& rank_group, const RetrievalSet& set)
    : KvDump(engine, rank_group), set_(set) {}

void RetrievalDump::take() {
    const int64_t number = set_.choice().number;
    if (number == taken_) return;
    taken_ = number;
    engine_.model().stream().synchronize();
    append(own_lines());
}

std::string RetrievalDump::own_lines() const {
    const RetrievalSet::Choice& choice = set_.choice();
    const int64_t kv_heads = choice.places.dim(1), all = choice.places.dim(2);
    std::string text;
    for (size_t owner = 0; owner < owners().size(); ++owner) {
        for (int64_t head = first_head(); head < end_head(); ++head) {
            const auto* place = static_cast<const int32_t*>(choice.places.data()) +
                                (static_cast<int64_t>(owner) * kv_heads + head - first_held()) * all;
            std::vector<int64_t> chunks;
            for (int64_t c = 0; c < choice.pick.candidates; ++c) {
                if (place[c] != kNotPicked) chunks.push_back(c);
            }
            text += fmt::format(
                R"({{"round":{},"layer":{},"head":{},"tokens":{},"chunk_size":{},"candidates":{},"chunks":[{}]}})"
                "\n",
                round_, owners()[owner], head, choice.pick.tokens, set_.shape().chunk, choice.pick.candidates,
                fmt::join(chunks, ","));
        }
        text += end_owner();
    }
    return text;
}

}  // namespace trireme
