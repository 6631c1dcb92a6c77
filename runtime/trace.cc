#include "runtime/trace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>

#include <fmt/format.h>

namespace trireme::trace {
namespace {

struct SpanRecord {
    const char* name;
    uint64_t begin, end, bytes;
};

/// A Total that one thread adds to while others read. Each number is consistent; together they may differ by one span.
struct Counter {
    std::atomic<const char*> name{nullptr};
    std::atomic<uint64_t> count{0}, ns{0}, bytes{0};

    void add(uint64_t spans, uint64_t span_ns, uint64_t span_bytes) {
        const auto plus = [](std::atomic<uint64_t>& x, uint64_t n) {  // one writer: no locked instruction
            x.store(x.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
        };
        plus(count, spans);
        plus(ns, span_ns);
        plus(bytes, span_bytes);
    }
    void reset() {
        count = 0;
        ns = 0;
        bytes = 0;
    }
};

}  // namespace

/// One per thread or stream, written by one thread at a time; kept after the thread has ended.
struct Lane {
    static constexpr size_t kNames = 128;
    std::atomic<const char*> name{"host"};
    std::array<Counter, kNames> totals{};
    std::mutex mutex;  // for the members below; contended only while another thread reads them
    std::vector<SpanRecord> spans;
    size_t dropped = 0;
};

namespace {

struct Registry {
    std::mutex mutex;
    std::vector<std::unique_ptr<Lane>> lanes;
    std::atomic<bool> recording{false};
    std::atomic<size_t> max_spans{0};
    uint64_t start_ns = 0;
};

Registry& registry() {
    static Registry r;
    return r;
}

Lane& lane() {
    thread_local Lane& mine = make_lane("host");
    return mine;
}

void keep(Lane& l, const SpanRecord& span) {
    if (!recording()) return;
    const std::lock_guard lock(l.mutex);
    if (!recording()) return;  // stop() was called in between
    if (l.spans.size() < registry().max_spans) {
        l.spans.push_back(span);
    } else {
        ++l.dropped;
    }
}

}  // namespace

void count(Lane& lane, const Total& total) {
    for (Counter& t : lane.totals) {
        const char* const taken = t.name.load(std::memory_order_relaxed);
        if (taken != nullptr && taken != total.name) continue;
        if (taken == nullptr) t.name.store(total.name, std::memory_order_release);
        t.add(total.count, total.ns, total.bytes);
        break;
    }
}

Lane& make_lane(const char* name) {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.lanes.push_back(std::make_unique<Lane>());
    r.lanes.back()->name = name;
    if (r.recording) r.lanes.back()->spans.reserve(r.max_spans);
    return *r.lanes.back();
}

uint64_t now() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

Lane& name_lane(const char* name) {
    lane().name = name;
    return lane();
}

bool recording() {
    return registry().recording.load(std::memory_order_relaxed);
}

void add(const char* name, uint64_t begin, uint64_t end, size_t bytes) {
    count(lane(), {name, 1, end - begin, bytes});
    keep(lane(), {name, begin, end, bytes});
}

void add_time(Lane& l, const char* name, uint64_t begin, uint64_t end, size_t bytes) {
    count(l, {name, 0, end - begin, 0});
    keep(l, {name, begin, end, bytes});
}

std::vector<Total> totals() {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    std::vector<Total> sums;
    for (const auto& l : r.lanes) {
        for (const Counter& c : l->totals) {
            const Total t{c.name.load(std::memory_order_acquire), c.count, c.ns, c.bytes};
            if (t.name == nullptr) break;
            const auto same = std::find_if(sums.begin(), sums.end(),
                                           [&](const Total& s) { return std::strcmp(s.name, t.name) == 0; });
            if (same == sums.end()) {
                sums.push_back(t);
            } else {
                *same = {same->name, same->count + t.count, same->ns + t.ns, same->bytes + t.bytes};
            }
        }
    }
    return sums;
}

Total total(const char* name) {
    for (const Total& t : totals()) {
        if (std::strcmp(t.name, name) == 0) return t;
    }
    return {name, 0, 0, 0};
}

Total total(const Lane& lane, const char* name) {
    for (const Counter& c : lane.totals) {
        const char* const taken = c.name.load(std::memory_order_acquire);
        if (taken == nullptr) break;
        if (std::strcmp(taken, name) == 0) return {taken, c.count, c.ns, c.bytes};
    }
    return {name, 0, 0, 0};
}

void reset_totals() {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    for (const auto& l : r.lanes) {
        for (Counter& c : l->totals) c.reset();
    }
}

void start(size_t max_spans) {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.max_spans = max_spans;
    r.start_ns = now();
    r.recording = true;
}

void stop() {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    r.recording = false;
    for (const auto& l : r.lanes) {
        const std::lock_guard own(l->mutex);
        l->spans = {};
        l->dropped = 0;
    }
}

std::vector<Span> spans(uint64_t begin_ns) {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    std::vector<Span> all;
    for (const auto& l : r.lanes) {
        const std::lock_guard own(l->mutex);
        for (const SpanRecord& s : l->spans) {
            if (s.begin >= begin_ns) all.push_back({l->name.load(), s.name, s.begin, s.end, s.bytes});
        }
    }
    return all;
}

size_t dropped() {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    size_t all = 0;
    for (const auto& l : r.lanes) {
        const std::lock_guard own(l->mutex);
        all += l->dropped;
    }
    return all;
}

std::string json(int rank) {
    Registry& r = registry();
    const std::lock_guard lock(r.mutex);
    std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    out += fmt::format(R"({{"ph":"M","pid":{0},"name":"process_name","args":{{"name":"rank {0}"}}}})", rank);
    for (size_t tid = 0; tid < r.lanes.size(); ++tid) {
        Lane& l = *r.lanes[tid];
        const std::lock_guard own(l.mutex);
        out += fmt::format(
            ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}}}", rank,
            tid, l.name.load());
        for (const SpanRecord& s : l.spans) {
            out += fmt::format(
                ",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"name\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{"
                "\"bytes\":{}}}}}",
                rank, tid, s.name, static_cast<double>(s.begin - r.start_ns) * 1e-3,
                static_cast<double>(s.end - s.begin) * 1e-3, s.bytes);
        }
        if (l.dropped) {
            out += fmt::format(
                ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"dropped_spans\",\"args\":{{\"count\":{}}}}}", rank,
                tid, l.dropped);
        }
    }
    return out + "\n]}\n";
}

}  // namespace trireme::trace
