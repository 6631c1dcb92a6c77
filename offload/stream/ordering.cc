#include "offload/stream/ordering.h"

#include <algorithm>
#include <numeric>

#include "runtime/index.h"

namespace trireme {

Ordering::Mark Ordering::record(Lane lane) {
    const auto i = static_cast<size_t>(lane);
    Mark& last = last_[i];
    const Event now = streams_[i]->record();
    const bool nothing_since = now.stream == last.event.stream && now.ticket == last.event.ticket;
    if (!nothing_since) {
        ++known_[i][i];
        last = {now, last.event, known_[i]};
    }
    return last;
}

void Ordering::wait(Lane lane, const Mark& mark, const char* what) {
    Clock& known = known_[index(lane)];
    bool news = false;
    for (size_t i = 0; i < kLanes; ++i) {
        news = news || mark.reached[i] > known[i];
        known[i] = std::max(known[i], mark.reached[i]);
    }
    if (!news) return;
    const Slip slip = waits_++ == slip_at_ ? slip_ : Slip::kNone;
    if (slip == Slip::kNoWait) return;
    stream(lane).wait(slip == Slip::kNoRecord ? mark.before : mark.event, what);
}

void Ordering::synchronize(Lane lane, const Mark& mark) {
    for (Clock& known : known_) {
        for (size_t i = 0; i < kLanes; ++i) known[i] = std::max(known[i], mark.reached[i]);
    }
    const Slip slip = waits_++ == slip_at_ ? slip_ : Slip::kNone;
    const Event event = slip == Slip::kNoRecord ? mark.before : mark.event;
    if (slip != Slip::kNoWait && event.stream != nullptr) stream(lane).synchronize(event);
}

void Ordering::wait_all(Lane lane, std::span<const Mark> marks, const char* what) {
    // Waits for the marks that imply most first: wait() then leaves out those that they imply. (If mark a implies mark
    // b, the sum of a.reached is larger.)
    const auto knows = [](const Mark& m) { return std::accumulate(m.reached.begin(), m.reached.end(), uint64_t{0}); };
    for (uint64_t next = UINT64_MAX;;) {
        const Mark* best = nullptr;
        for (const Mark& m : marks) {
            if (knows(m) < next && (best == nullptr || knows(m) > knows(*best))) best = &m;
        }
        if (best == nullptr) return;
        next = knows(*best);
        for (const Mark& m : marks) {
            if (knows(m) == next) wait(lane, m, what);
        }
    }
}

}  // namespace trireme
