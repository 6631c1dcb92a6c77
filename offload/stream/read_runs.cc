#include "offload/stream/read_runs.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {
namespace {

/// A layer that a forward without frames fetches more than once.
struct Wish {
    StreamedIndex layer;
    int64_t saves = 0;           // fetches that a frame saves
    size_t first = 0, last = 0;  // its first and last run
    int64_t frame = -1;
};

std::vector<ReadRun> runs_without_frames(std::span<const StreamedIndex> reads) {
    std::vector<ReadRun> runs;
    for (const StreamedIndex layer : reads) {
        if (runs.empty() || runs.back().layer != layer) runs.push_back({.layer = layer});
        ++runs.back().attentions;
    }
    return runs;
}

/// Sorted: those that save most come first; among equals, those that need a frame for a shorter time.
std::vector<Wish> wishes(std::span<const ReadRun> runs, bool ring_holds) {
    std::vector<Wish> all;
    for (size_t r = 0; r < runs.size(); ++r) {
        auto known = std::ranges::find(all, runs[r].layer, &Wish::layer);
        if (known == all.end()) known = all.insert(all.end(), {.layer = runs[r].layer, .saves = -1, .first = r});
        known->saves += ring_holds ? 1 : runs[r].attentions;
        known->last = r;
    }
    std::erase_if(all, [](const Wish& w) { return w.saves == 0; });
    std::ranges::stable_sort(all, [](const Wish& a, const Wish& b) {
        return a.saves != b.saves ? a.saves > b.saves : a.last - a.first < b.last - b.first;
    });
    return all;
}

/// The most wishes that need a frame at one time.
int64_t most_at_once(std::span<const Wish> granted) {
    int64_t most = 0;
    for (const Wish& at : granted) {
        most = std::max<int64_t>(most, std::ranges::count_if(granted, [&](const Wish& w) {
                                     return w.first <= at.first && at.first <= w.last;
                                 }));
    }
    return most;
}

/// The wishes that get a frame.
std::vector<Wish> granted(const std::vector<Wish>& all, int64_t frames) {
    const bool one_each = static_cast<int64_t>(all.size()) <= frames;
    const int64_t at_once = one_each ? frames : std::max<int64_t>(1, frames - 1);
    std::vector<Wish> some;
    for (const Wish& w : all) {
        if (frames == 0) break;
        some.push_back(w);
        // A single frame cannot be filled while it is read, so it serves one layer.
        if (most_at_once(some) > at_once || (frames == 1 && some.size() > 1)) some.pop_back();
    }
    return some;
}

}  // namespace

std::vector<StreamedIndex> number_streamed(int64_t owners, const std::vector<bool>& on_chip) {
    check(on_chip.empty() || static_cast<int64_t>(on_chip.size()) == owners,
          "kv: the residency of {} layers for {} owners", on_chip.size(), owners);
    std::vector<StreamedIndex> numbers;
    int64_t next = 0;
    for (size_t owner = 0; owner < static_cast<size_t>(owners); ++owner) {
        numbers.emplace_back(on_chip.empty() || on_chip[owner] ? -1 : next++);
    }
    return numbers;
}

std::vector<StreamedIndex> streamed_reads(std::span<const OwnerIndex> reads, std::span<const StreamedIndex> numbers) {
    std::vector<StreamedIndex> streamed;
    for (const OwnerIndex owner : reads) {
        if (numbers[owner.at()].i >= 0) streamed.push_back(numbers[owner.at()]);
    }
    return streamed;
}

std::vector<ReadRun> read_runs(std::span<const StreamedIndex> reads, int64_t frames, bool ring_holds) {
    std::vector<ReadRun> runs = runs_without_frames(reads);
    std::vector<Wish> held = granted(wishes(runs, ring_holds), frames);
    std::ranges::sort(held, {}, &Wish::first);
    // The readers of the frame that has been free longest are done: it can be filled at once.
    std::vector<int64_t> free_since(static_cast<size_t>(frames), -1);
    for (Wish& w : held) {
        const auto oldest = std::ranges::min_element(free_since);
        check(*oldest < static_cast<int64_t>(w.first), "kv: no frame is free for streamed layer {}", w.layer);
        w.frame = oldest - free_since.begin();
        *oldest = static_cast<int64_t>(w.last);
    }
    for (const Wish& w : held) {
        for (size_t r = w.first; r <= w.last; ++r) {
            if (runs[r].layer != w.layer) continue;
            runs[r].frame = w.frame;
            runs[r].first = r == w.first;
            runs[r].last = r == w.last;
        }
    }
    return runs;
}

int64_t useful_frames(std::span<const StreamedIndex> reads, bool ring_holds) {
    const std::vector<Wish> all = wishes(runs_without_frames(reads), ring_holds);
    return std::min(static_cast<int64_t>(all.size()), most_at_once(all) + 1);
}

std::vector<int64_t> crossings(std::span<const ReadRun> runs, int64_t layers, bool ring_holds) {
    std::vector<int64_t> times(static_cast<size_t>(layers), 0);
    for (const ReadRun& run : runs) {
        times[run.layer.at()] += run.held() ? (run.first ? 1 : 0) : ring_holds ? 1 : run.attentions;
    }
    return times;
}

}  // namespace trireme
