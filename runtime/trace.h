#pragma once
/// Spans of time with the bytes they moved. Totals are always kept (two clock reads a span); the spans themselves only
/// behind start(), as Chrome trace events that Perfetto opens.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::trace {

struct Total {
    const char* name;
    uint64_t count, ns, bytes;
};

/// Nanoseconds of the monotonic clock.
uint64_t now();
/// Milliseconds since `begin_ns`, which now() returned.
inline double ms_since(uint64_t begin_ns) {
    return static_cast<double>(now() - begin_ns) * 1e-6;
}
/// One of the trace's lanes: a thread's, or a device's stream's. It lives for ever.
struct Lane;
/// Names the calling thread's lane. `name` must be a literal.
Lane& name_lane(const char* name);
/// A finished span of the calling thread. `name` must be a literal: totals are kept by its address.
void add(const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
/// A lane of its own for what runs on no thread, as a device's stream does. One thread at a time adds to it.
Lane& make_lane(const char* name);
/// Adds to the lane's totals what has no span: an operation of a device that nobody timed has 0 ns.
void count(Lane& lane, const Total& total);
/// The span of what count() has counted, with its bytes, before anybody knew how long it would take.
void add_time(Lane& lane, const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
/// Spans are being kept.
bool recording();

/// Sums over all threads, by name. What a busy stream is adding meanwhile may be half there.
std::vector<Total> totals();
Total total(const char* name);
/// The same of one lane alone.
Total total(const Lane& lane, const char* name);
void reset_totals();

/// Keeps spans from now on (at most `max_spans` a lane; what is dropped is counted and said).
void start(size_t max_spans = 1u << 20);
/// Keeps none from now on, and forgets those that were kept. Totals stay.
void stop();
/// A span that was kept. Times as now() has them.
struct Span {
    const char *lane, *name;
    uint64_t begin, end, bytes;
};
/// Those that began at `begin_ns` or later, lane by lane; streams may be at work meanwhile.
std::vector<Span> spans(uint64_t begin_ns);
/// How many were not kept since start().
size_t dropped();
/// The spans as Chrome trace JSON. `rank` becomes the process id.
std::string json(int rank);

}  // namespace trireme::trace
