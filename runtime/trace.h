#pragma once
/// Trace: spans of time with the bytes they moved. Totals are always kept (two clock reads per span). Spans are kept
/// after start() only, as Chrome trace events that Perfetto opens.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::trace {

struct Total {
    const char* name;
    uint64_t count, ns, bytes;
};

/// Returns nanoseconds of the monotonic clock.
uint64_t now();
/// Returns milliseconds since `begin_ns`, a result of now().
inline double ms_since(uint64_t begin_ns) {
    return static_cast<double>(now() - begin_ns) * 1e-6;
}
/// A row of the trace: a thread, or a stream of a device. Lanes are never freed.
struct Lane;
/// Names the calling thread's lane. `name` must be a literal.
Lane& name_lane(const char* name);
/// Adds a finished span of the calling thread. `name` must be a literal: totals are kept by its address.
void add(const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
/// Makes a lane for work that runs on no thread, like that of a device's stream. One thread at a time adds to it.
Lane& make_lane(const char* name);
/// Adds to the lane's totals, without a span. A device's operation that was not timed has 0 ns.
void count(Lane& lane, const Total& total);
/// Adds the span and the time of an operation that count() has counted before its time was known.
void add_time(Lane& lane, const char* name, uint64_t begin_ns, uint64_t end_ns, size_t bytes);
bool recording();

/// Returns sums over all lanes, by name. Spans that are added at the same time may be counted in part.
std::vector<Total> totals();
Total total(const char* name);
/// Like total(name), for one lane.
Total total(const Lane& lane, const char* name);
void reset_totals();

/// Keeps spans from now on, at most `max_spans` per lane; dropped() counts the others.
void start(size_t max_spans = 1u << 20);
/// Stops keeping spans and deletes those that were kept. Totals are unchanged.
void stop();
/// A span that was kept. Times are those of now().
struct Span {
    const char *lane, *name;
    uint64_t begin, end, bytes;
};
/// Returns the spans that began at `begin_ns` or later, lane by lane. Streams may add spans meanwhile.
std::vector<Span> spans(uint64_t begin_ns);
/// Returns the number of spans that were dropped since start().
size_t dropped();
/// Returns the spans as Chrome trace JSON. `rank` becomes the process id.
std::string json(int rank);

}  // namespace trireme::trace
